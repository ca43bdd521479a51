// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package selections bounds what it takes that many rules select the same objects, or have each of them copied to many places.
//
// What is held of objects is bounded (package memory), and so are the copies that are made (quota.Stock). But a rule that renames what it copies, or
// copies it into many namespaces, has a place of its own for each object, which is known, worked on and told of also where no copy can be made there: some
// hundreds of them, of one author, took gigabytes.
//
// A selection is all that one rule selects of one cluster. Up to the bound, whoever comes first has what it wants. Beyond it one selection ends after the other: of the
// author that has most beyond its share, of what that one selects of the cluster that it has most of beyond that one's share, the selection by the newest
// rule. So neither by rules for what others have, nor by objects that rules of others select, a member has those of others end, as long as these have
// no more than their share. The rule of a selection that has ended asks for nothing of that cluster, its copies stay as they are, and it
// is tried again after a while.
//
// Nothing here has a lock or a clock: the caller has both.
package selections
