// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cli is what all commands of agentctl have in common, and nothing of what any of them does: the flags that
// every command takes, exit codes, the forms of output, waiting for agents, and the shell's questions about names.
//
// A command is a package with a function that describes it to the flag library, and a plain struct Options:
//
//	Validate  gives one error that names the flag and the fix, before anything is read
//	Run       does it, writes to an Output, and returns an error that ExitCode turns into the exit code
//
// Globals.Run joins the two. A test fills the struct by itself and needs no command line.
package cli
