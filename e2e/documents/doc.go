// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package documents has the commands of README.md, docs and the chart's README: what they are, and for each the test that takes
// it from the text and runs it. Whoever writes a command into a document adds it to list.go, and to a test: mostly to a scene of
// e2e/documents/scenes.
package documents
