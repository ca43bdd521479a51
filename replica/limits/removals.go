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
	places     map[string]place // that were looked up; nil when all is to be counted again
}

// place is where in the tree a cluster is.
type place struct {
	above  string  // as it was looked up
	branch *branch // nil while that is looked up
}

// branch is what a cluster takes up with all below it.
type branch struct {
	above *branch // nil: self
	level int     // 1 is right below self
	size  int
}

// NewRemovals returns the count of none. self takes up no room.
func NewRemovals(total int, self string) Removals {
	return Removals{total: total, self: self, introducer: map[string]string{}, sponsored: map[string]int{}, own: map[string]int{}}
}

// ShareBy sets who is above whom.
func (r *Removals) ShareBy(parent func(id string) string) { r.parent, r.places = parent, nil }

// Reshare is told that who is above whom has changed.
func (r *Removals) Reshare() { r.places = nil }

// Put counts a removal.
func (r *Removals) Put(n Removal) {
	if n.Introducer != "" {
		r.introducer[n.Removed] = n.Introducer
		if at, ok := r.places[n.Removed]; ok && at.above != r.above(n.Removed) {
			r.places = nil
		}
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
}

// Sponsored is how many somebody answers for.
func (r *Removals) Sponsored(sponsor string) int { return r.sponsored[sponsor] }

func (r *Removals) add(of string, n int) {
	if of == r.self {
		return
	}
	r.sum += n
	if r.own[of] += n; r.own[of] == 0 {
		delete(r.own, of)
	}
	if r.places != nil {
		r.branch(of).add(n)
	}
}

func (b *branch) add(n int) {
	for ; b != nil; b = b.above {
		b.size += n
	}
}

// maxLevel is how deep clusters are told apart. What is below counts as the one of that level which it is below.
const maxLevel = 128

// branch finds the branch that a cluster is the head of; nil is self.
func (r *Removals) branch(id string) (b *branch) {
	var unknown []string
	for id != r.self && b == nil {
		at, met := r.places[id]
		switch {
		case at.branch != nil:
			b = at.branch
		case met, id == "": // a circle; it leads nowhere
			id = nobody
		default:
			above := r.above(id)
			r.places[id] = place{above: above}
			unknown = append(unknown, id)
			id = above
		}
	}
	for _, id := range slices.Backward(unknown) {
		switch {
		case b == nil:
			b = &branch{level: 1}
		case b.level < maxLevel:
			b = &branch{above: b, level: b.level + 1}
		}
		r.places[id] = place{r.places[id].above, b}
	}
	return b
}

// above is who is right above a cluster; "" if nobody knows.
func (r *Removals) above(id string) string {
	if id == nobody || r.parent == nil {
		return r.self
	}
	return cmp.Or(r.parent(id), r.introducer[id])
}

// Fits says whether there is room for another one of a cluster. At each level down to it a cluster with all below it may have what the
// others of that level leave, but for a part. So who makes up clusters leaves room at each level above for what others say. What
// is below one that was removed is below who had brought that one.
func (r *Removals) Fits(of string) bool {
	if r.places == nil {
		r.places = map[string]place{}
		for id, n := range r.own {
			r.branch(id).add(n)
		}
	}
	var path []*branch
	for b := r.branch(of); b != nil; b = b.above {
		path = append(path, b)
	}
	room, all := r.total, r.sum
	for _, b := range slices.Backward(path) {
		left := room - (all - b.size)
		if room = left * (b.parts() - 1) / b.parts(); b.size >= room {
			return false
		}
		all = b.size
	}
	return true
}

// parts is of how many one is not for a branch, so that others find room: a fifth right below self and below that, and less the
// deeper it is. Were it a fifth at each level, nothing would be left for the end of a chain. So a hundredth level has 3 in 100.
func (b *branch) parts() int { return max(5, b.level+3) }
