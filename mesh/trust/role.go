// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package trust

import "crypto/ed25519"

// strengthened is a pin that is held with what another one of its key adds to it, and whether that is anything.
func strengthened(held, p Pin) (Pin, bool) {
	stronger := held.Introducer != "" && p.Admitted && (p.Introducer == "" || !held.Admitted)
	wider := held.Edge && !p.Edge
	if stronger {
		p.Vouched, p.Kept, p.Past = held.Vouched, held.Kept, held.Past
	} else {
		p = held
	}
	p.Edge = held.Edge && !wider
	return p, stronger || wider
}

// widen has the words of a member count that was pinned, or is no edge any more: whom it admits as more than an edge is none. It
// returns the pins that became wider.
func (g *Graph) widen(author string) (wider []Pin) {
	if g.pins[author].Edge {
		return nil
	}
	for subject := range g.admissions.by[author] {
		pin, a := g.pins[subject], g.admissions.of[subject][author]
		if pin.Edge && !a.Edge && pin.PublicKey.Equal(a.PublicKey) && g.admits(a) {
			pin.Edge = false
			wider = append(wider, g.pin(pin)...)
		}
	}
	return wider
}

// isEdge says whether a member is an edge. This cluster takes itself for one if all members that may say so do.
func (g *Graph) isEdge(id string) bool {
	pin, said := g.pins[id], false
	if id != g.self {
		return pin.Edge
	}
	for _, a := range g.admissions.of[id] {
		if counts := pin.PublicKey.Equal(a.PublicKey) && g.admits(a); counts && !a.Edge {
			return false
		} else if counts {
			said = true
		}
	}
	return said
}

// PinEdge records a swap by which a cluster becomes an edge. One that is more than that stays it.
func (t *Table) PinEdge(id string, key ed25519.PublicKey) error {
	return t.Restore(Pin{ClusterID: id, PublicKey: key, Edge: true})
}

// IsEdge says whether a member neither admits nor removes others, and whose rules are in force nowhere else. What the cluster itself
// is it knows only from others.
func (t *Table) IsEdge(id string) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.graph.isEdge(id)
}
