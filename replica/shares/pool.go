// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package shares

import (
	"cmp"
	"maps"
)

// staleness is which part of the total may come and go before it is shared anew: that takes milliseconds where there are thousands.
const staleness = 256

// Pool is something of which clusters take until it is used up, and then no more than their share. What the root takes does not count.
// It is not safe for concurrent use.
type Pool struct {
	Total  int
	Root   string
	Parent func(id string) string // see Of; without it all are equal

	used   map[string]int
	sum    int
	shares map[string]int // as they were when
	since  int            // so much had not come or gone yet
}

// Used is how much a cluster has.
func (p *Pool) Used(id string) int { return p.used[id] }

// Sum is how much all have.
func (p *Pool) Sum() int { return p.sum }

// Set notes how much a cluster has. Who has nothing is known still, and so has a share.
func (p *Pool) Set(id string, used int) {
	if id == p.Root {
		return
	}
	change := used - p.used[id]
	if p.used == nil {
		p.used = map[string]int{}
	}
	p.used[id] = used
	p.sum += change
	p.since += max(change, -change)
}

// Forget is told that a cluster is gone.
func (p *Pool) Forget(id string) {
	p.Set(id, 0)
	delete(p.used, id)
}

// Reshare is told that who admitted whom has changed.
func (p *Pool) Reshare() { p.shares = nil }

// Fits says whether a cluster may have so much: there is room, or it is within its share, and others have more than theirs.
func (p *Pool) Fits(id string, wants int) bool {
	return p.over(id, wants) <= 0 || wants <= p.share(id)
}

// Make makes room, so that a cluster may have so much: giveWay has another one keep no more than most, and notes that by Set. Who has
// most beyond its share is asked first, for no more than it takes. False is that there is no room, and then nobody was asked.
func (p *Pool) Make(id string, wants int, giveWay func(id string, most int)) bool {
	switch {
	case p.over(id, wants) <= 0:
		return true
	case wants > p.share(id):
		return false
	}
	others, all := p.beyond(id)
	if all < p.over(id, wants) { // the shares were those of a while ago
		if p.divide(id, wants); wants > p.shares[id] {
			return false
		}
		others, _ = p.beyond(id)
	}
	for other := range First(others, mostFirst) {
		over := p.over(id, wants)
		if over <= 0 {
			break
		}
		giveWay(other.id, p.used[other.id]-min(other.by, over))
	}
	return p.over(id, wants) <= 0
}

// over is by how much all would exceed the total.
func (p *Pool) over(id string, wants int) int {
	if id == p.Root {
		return 0
	}
	return p.sum - p.used[id] + wants - p.Total
}

func (p *Pool) share(id string) int {
	if _, ok := p.shares[id]; !ok || p.since > p.Total/staleness {
		p.divide(id, p.used[id])
	}
	return p.shares[id]
}

// divide computes all shares, as if the one that wants something wanted some more: so it is not done again for each bit that it
// takes. Its own share does not depend on that, and nobody's falls below what it has if all want everything.
func (p *Pool) divide(id string, wants int) {
	all := maps.Clone(p.used)
	if all == nil {
		all = map[string]int{}
	}
	p.since = p.Total / staleness / 2
	all[id] = wants + p.since
	parent := p.Parent
	if parent == nil {
		parent = func(string) string { return p.Root }
	}
	p.shares = Of(p.Total, p.Root, parent, all)
}

// excess is what a cluster has beyond its share.
type excess struct {
	id string
	by int
}

func mostFirst(a, b excess) int { return cmp.Or(cmp.Compare(b.by, a.by), cmp.Compare(a.id, b.id)) }

// beyond is who has more than its share, other than id, and by how much all of them together.
func (p *Pool) beyond(than string) (others []excess, all int) {
	for other, used := range p.used {
		share, ok := p.shares[other] // it may have come since
		if by := used - share; ok && other != than && by > 0 {
			others, all = append(others, excess{other, by}), all+by
		}
	}
	return others, all
}
