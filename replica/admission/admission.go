// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package admission is what the replica does about admissions, which say that a member admits a cluster: it does not know why,
// but an admission must come before what it admits.
package admission

// maxAwaited bounds whom Awaited remembers: beyond that it begins again, and members find by comparing what they hold what was
// not asked for.
const maxAwaited = 1024

// Awaited has the origins that found no admission. The zero value is empty.
type Awaited struct{ ids map[string]struct{} }

// Note notes that an origin was refused.
func (a *Awaited) Note(id string) {
	if a.ids == nil || len(a.ids) >= maxAwaited {
		a.ids = map[string]struct{}{}
	}
	a.ids[id] = struct{}{}
}

// Take says whether an origin was refused, and forgets it.
func (a *Awaited) Take(id string) bool {
	_, ok := a.ids[id]
	delete(a.ids, id)
	return ok
}

// After orders ids so that each comes after one that leads to it, where one of them does; those that are given first are
// looked at first. next lists what an id leads to; of that, what is not among ids is left out. Circles are normal.
func After(ids []string, next func(id string) []string) []string {
	among, done := make(map[string]bool, len(ids)), make(map[string]bool, len(ids))
	for _, id := range ids {
		among[id] = true
	}
	ordered := make([]string, 0, len(ids))
	for _, id := range ids {
		if done[id] {
			continue
		}
		done[id] = true
		for queue := []string{id}; len(queue) > 0; queue = queue[1:] {
			ordered = append(ordered, queue[0])
			for _, to := range next(queue[0]) {
				if among[to] && !done[to] {
					done[to] = true
					queue = append(queue, to)
				}
			}
		}
	}
	return ordered
}
