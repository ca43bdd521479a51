// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package shares divides what there is of something among clusters, by who admitted them: one that admits thousands gets, with all of
// those, what a sibling gets.
//
// It is shared level by level down the tree. At each cluster it is shared among that cluster itself and each cluster that it
// admitted, which stands for all below it:
//
//	me ─┬─ a                     1/2
//	    └─ m ─┬─ m               1/6
//	          ├─ invented-1      1/6
//	          └─ invented-2      1/6
//
// Who wants less than its part leaves the rest to those that want more (max-min fairness: Bertsekas and Gallager, "Data Networks",
// 6.5.2), first to those of the same level. So what is unused is lent, and is given back when somebody whose part it is wants it:
// who has more than its share then must give way.
//
// Clusters that no path leads to from here stand together for one.
package shares
