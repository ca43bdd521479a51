// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package drift says how what is in a cluster differs from what a rule would have there. It reads decisions that nobody acts
// on: those of rules with mode Observe, made by syncrules.Plan as if the rules wrote. It is pure.
//
// Marks of agents are no drift: an object that has the content of a copy is as the rule would have it, whoever made it.
package drift
