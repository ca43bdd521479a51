// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Agentctl looks at a group of clusters and lets clusters join it.
//
// It is a client of the clusters' API servers only: it never talks to an agent. Everything that it
// shows an agent has written into an object, so kubectl shows the same. Its flags may stand before or
// after the command's name.
//
// Exit codes:
//
//	0  the command did what it was asked
//	1  it could not, and nothing is waited for: one line on standard error says why
//	2  the command line is wrong: one line names the flag or command
//	3  what was asked has been written, but the agents did not finish within --timeout:
//	   standard error says what is missing
package main
