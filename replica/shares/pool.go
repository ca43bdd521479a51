// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package shares

import "maps"

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

// Set notes how much a cluster has.
func (p *Pool) Set(id string, used int) {
	if id == p.Root {
		return
	}
	change := used - p.used[id]
	if p.used == nil {
		p.used = map[string]int{}
	}
	if p.used[id] = used; used == 0 {
		delete(p.used, id)
	}
	p.sum += change
	p.since += max(change, -change)
}

// Reshare is told that who admitted whom has changed.
func (p *Pool) Reshare() { p.shares = nil }

// Fits says whether a cluster may have so much: there is room, or it is within its share, and others have more than theirs.
func (p *Pool) Fits(id string, wants int) bool {
	return p.over(id, wants) <= 0 || wants <= p.share(id)
}

// Make makes room, so that a cluster may have so much: giveWay has another one keep no more than most, and notes that by Set. Who has
// most beyond its share is asked first, for no more than it takes. False is that there is no room.
func (p *Pool) Make(id string, wants int, giveWay func(id string, most int)) bool {
	if !p.Fits(id, wants) {
		return false
	}
	for exact := false; p.over(id, wants) > 0; {
		other, beyond := p.mostBeyond(id)
		switch {
		case other != "":
			before := p.used[other]
			if giveWay(other, before-min(beyond, p.over(id, wants))); p.used[other] >= before {
				return false
			}
		case exact:
			return false
		default: // the shares were those of a while ago
			p.divide(id, wants)
			if exact = true; wants > p.shares[id] {
				return false
			}
		}
	}
	return true
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

func (p *Pool) divide(id string, wants int) {
	all := maps.Clone(p.used)
	if all == nil {
		all = map[string]int{}
	}
	all[id] = wants
	parent := p.Parent
	if parent == nil {
		parent = func(string) string { return p.Root }
	}
	p.shares, p.since = Of(p.Total, p.Root, parent, all), 0
}

// mostBeyond is who has most beyond its share, other than id; "" for nobody.
func (p *Pool) mostBeyond(than string) (id string, beyond int) {
	for other, used := range p.used {
		share, ok := p.shares[other] // it may have come since
		if n := used - share; ok && other != than && (n > beyond || n == beyond && n > 0 && other < id) {
			id, beyond = other, n
		}
	}
	return id, beyond
}
