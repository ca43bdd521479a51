// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Agentctl looks at a group of clusters, lets clusters join it, and carries their list elsewhere.
//
// It is a client of the clusters' API servers: what it shows an agent has written into an object, so
// kubectl shows the same. Only doctor goes to an agent itself, and no further than to see its key. Flags may
// stand before or after the command's name, and after its arguments.
//
// A command is a package in internal, and one line in app.go. Commands do not know each other; what they share is
// in internal/cli (flags, output, exit codes), internal/clusters (API servers, and what agents wrote there), internal/documents (files),
// internal/live (watches) and internal/versions.
//
// Exit codes:
//
//	0  the command did what it was asked
//	1  it could not, and nothing is waited for: one line on standard error says why
//	2  the command line is wrong: one line names the flag or command
//	3  what was asked has been written, but the agents did not finish within --timeout:
//	   standard error says what is missing
//
// The rules commands answer a question, and the answer is in the exit code too:
//
//	0  synced, or would be: list: every rule is Ready; explain: at least one copy, and nothing blocked
//	4  explain: no rule selects the object, or the rule selects nothing
//	5  list: a rule is not Ready; explain: something blocks a copy, standard output says what
//	6  explain: unknown, because a cluster that matters cannot be read
//
// So is that of status, doctor and export:
//
//	0  healthy; nothing found; everything is in the file
//	4  doctor: warnings; export: the file lacks something, standard error says what
//	5  status: problems; doctor: errors
//	6  nothing worse than that something is not known
//
// bundle ends with 6 where its file lacks something, verify where a cluster could not be asked. With --fleet, which asks
// the whole group, 6 comes first: a member could not be asked, and the answer is not about the group.
//
// Under the name kubectl-roster the program is a plugin of kubectl, and under kubectl_complete-roster its completion.
package main
