// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package memory bounds what is held of all other clusters together.
//
// Up to the bound, whoever comes first has what it wants. Beyond it a cluster within its share of the bound has the one that has most
// beyond its own give way: one member may have invented those that came first. To keep a part of the memory for such clusters instead
// would not do: each invention has a share of that, too, and nobody could be made to give it back.
package memory
