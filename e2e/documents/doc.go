// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package documents has the commands of the documents: what they are, and for each the test that takes it from the text and runs it.
// Whoever writes a command into a document adds it to list.go, and to a test: mostly to a scene of e2e/documents/scenes.
//
// Commands are what is in fenced blocks of README.md, docs/*.md, docs/examples/README.md and the chart's README. Left out are
// docs/cli.md and docs/api.md, which are generated, and docs/decisions, which tells what was. Commands within sentences and tables,
// and the examples of docs/cli.md, are not run: a test of cmd/agentctl has agentctl parse its own, and tests of this package look for
// the targets of make, and the flags of what go runs. Those of others, as of kubectl and helm, nobody looks at.
//
// A test ends with Reader.Untyped, which compares what it typed with the list. One that is skipped has typed nothing: e2e/pods needs
// root. make test runs all of them but those of e2e/gitops and cmd/internal/publish, which make e2e-gitops and make e2e-signatures run.
package documents
