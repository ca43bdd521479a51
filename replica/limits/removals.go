// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"cmp"
	"slices"
)

// nobody takes up the room of removals by authors that are not pinned: one that passes them on does not know them. So do clusters that
// no path leads to. No cluster has that clusterID, and all of it stands for one branch.
const nobody = "-"

// Removal is what is counted of one.
type Removal struct {
	Removed    string // the cluster
	Introducer string // on whose word it was a member; "" where that is not known
	Sponsor    string // who answers for it: its author's key, or the member that brought what an unknown author signed
	Author     string
	Voucher    string // who brought it, where the author is unknown
}

// Branch is who takes up the room for it: who brought the removed cluster, or its author, if that is known.
func (r Removal) Branch() string {
	if r.Introducer == "" && r.Voucher != "" {
		return nobody
	}
	return cmp.Or(r.Introducer, r.Author)
}

// Removals counts the removals that are held by who takes up room with them, and all below it in the tree of admissions. They are kept
// for ever, so nobody gives way, and what is free is not lent as a whole: see Fits. It is not safe for concurrent use.
type Removals struct {
	total      int
	self       string
	parent     func(id string) string // nil: all are right below self
	introducer map[string]string      // of clusters that were removed, which may be in no tree any more
	sponsored  map[string]int
	own        map[string]int // by who takes up room
	sum        int
	branches   branches // nil when they are to be counted again
}

// branches are what clusters take up with all below them.
type branches map[string]int

// NewRemovals returns the count of none. self takes up no room.
func NewRemovals(total int, self string) Removals {
	return Removals{total: total, self: self, introducer: map[string]string{}, sponsored: map[string]int{}, own: map[string]int{}}
}

// ShareBy sets who is above whom.
func (r *Removals) ShareBy(parent func(id string) string) { r.parent, r.branches = parent, nil }

// Reshare is told that who is above whom has changed.
func (r *Removals) Reshare() { r.branches = nil }

// Put counts a removal.
func (r *Removals) Put(n Removal) {
	if n.Introducer != "" {
		r.introducer[n.Removed] = n.Introducer
	}
	r.sponsored[n.Sponsor]++
	r.add(n.Branch(), 1)
}

// Drop says that one which was counted is not held any more.
func (r *Removals) Drop(n Removal) {
	if r.sponsored[n.Sponsor]--; r.sponsored[n.Sponsor] == 0 {
		delete(r.sponsored, n.Sponsor)
	}
	r.add(n.Branch(), -1)
	r.branches = nil
}

// Sponsored is how many somebody answers for.
func (r *Removals) Sponsored(sponsor string) int { return r.sponsored[sponsor] }

func (r *Removals) add(of string, n int) {
	if of == r.self {
		return
	}
	r.sum += n
	r.own[of] += n
	if r.branches != nil {
		r.branches.add(r.path(of), n)
	}
}

func (b branches) add(path []string, n int) {
	for _, at := range path {
		b[at] += n
	}
}

// path lists who is above a cluster, first the one right below self, and itself last.
func (r *Removals) path(id string) (path []string) {
	for id != r.self {
		if id == "" || slices.Contains(path, id) { // it leads nowhere
			id = nobody
		}
		path = append(path, id)
		if id == nobody || r.parent == nil {
			break
		}
		if id = cmp.Or(r.parent(id), r.introducer[id]); len(path) == maxPath {
			id = nobody
		}
	}
	slices.Reverse(path)
	return path
}

// maxPath bounds how far it is looked up.
const maxPath = 64

// Fits says whether there is room for another one of a cluster. At each level down to it a cluster with all below it may have four
// fifths of what the others of that level leave. So who makes up clusters leaves room at each level above for what others say. What
// is below one that was removed is below who had brought that one.
func (r *Removals) Fits(of string) bool {
	if of == r.self {
		return true
	}
	if r.branches == nil {
		r.branches = branches{}
		for id, n := range r.own {
			if n > 0 {
				r.branches.add(r.path(id), n)
			}
		}
	}
	room, all := r.total, r.sum
	for _, at := range r.path(of) {
		size := r.branches[at]
		if room = 4 * (room - (all - size)) / 5; size >= room {
			return false
		}
		all = size
	}
	return true
}
