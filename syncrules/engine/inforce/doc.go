// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package inforce says which rules are in force where one author has too many.
//
// An author is the cluster that published a rule. Of each, the MaxRules oldest rules have a place here, and of those each is
// in force that still fits into MaxViews watches at each other cluster. So a rule that is added takes nothing from those that
// were there, and the same rules are in force after a restart.
//
// Nothing here has a lock or a clock: the caller has both.
package inforce
