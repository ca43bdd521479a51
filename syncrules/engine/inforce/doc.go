// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package inforce says which rules are in force where there are too many, and which watches are opened for them.
//
// An author is the cluster that published a rule. Of each, the MaxRules oldest rules have a place here, and of those each is
// in force that still fits into MaxViews watches at one cluster. So a rule that is added takes nothing from those that
// were there, and the same rules are in force after a restart.
//
// One member can invent thousands of authors. So all authors but the cluster itself together have MaxAllRules places and
// MaxAllViews watches. Where they want more, they share those by who admitted whom. Rules have their places in turn, each time one of
// the branch that has least (turns). Of watches each author first has its share, as Admissions.Share has it, with its oldest rules first;
// the rest goes to the other rules in turn. A watch that several authors want is one, and counts for the first of them.
//
// Watches at all clusters together are bounded by the memory that there is. Where the rules in force need more, Choose has authors and
// the clusters that are read have their turns in the same way. So ChooseHere does for what is in the way of copies.
//
// An edit of a rule may leave it in force (Edits), and what it is about has to be looked at again (Edited, About).
//
// Objects of a kind are looked at in one version: that of the oldest rule about it. Clash has rules of others wait.
//
// Nothing here has a lock or a clock: the caller has both.
package inforce
