// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package place names where objects are: a Key is the place of one object in an API server, a Scope is all objects that
// one watch is about, and a Sink takes what is in it.
//
// The kind of a Key has no version: an object is the same in all of them. The kind of a Scope has one, since a watch
// reads objects in one version. Both are comparable.
package place
