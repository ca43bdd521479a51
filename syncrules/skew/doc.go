// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package skew is about rules that have fields which another version of the agent does not know.
//
// A rule is applied as a whole or not at all: without one of its fields it would be a different rule, one that copies to
// more clusters, or writes where it should only look. So an agent refuses a rule with a field that it does not know
// (Unknown, Refuse), wherever it has the rule from: from a member, or from its own API server, whose CRDs may be newer.
// What it keeps of such a rule is its Stub, which freezes all copies in every version of the agent.
//
// docs/decisions/038 says why.
package skew
