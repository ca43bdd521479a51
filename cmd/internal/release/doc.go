// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Release packs what make built into what people install: the images, archives of the programs, the chart, and the
// lists of what is inside.
//
//	bin/release/OS_ARCH/agent, agentctl ──► release image           ──► roster-agent-VERSION.tar, .spdx.json
//	…/roster-apiserver                  ├─► release image-apiserver ──► roster-apiserver-VERSION.tar, .spdx.json
//	charts/agent                        └─► release all             ──► both, agentctl-VERSION-OS-ARCH.tar.gz or .zip,
//	                                                                    agent-VERSION-OS-ARCH.tar.gz, the chart, SHA256SUMS
//
// It asks no network, registry or clock: the same binaries, version, commit and date give the same bytes. That the
// binaries are the same for the same commit is what -trimpath and the settings in the Makefile are for.
package main
