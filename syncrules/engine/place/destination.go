// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package place

import (
	"iter"
	"maps"
	"slices"
)

// Destination is where the copy that one rule makes of an object belongs.
type Destination struct {
	To      Key    // it stands for many places where the rule copies into many namespaces
	Fault   string // why that cannot be told, for people; "" normally
	Refused bool   // the fault is that this cluster does not consent
}

// Reaches says that the copy belongs in a place, or in one of the places that it may be.
func (d Destination) Reaches(k Key) bool {
	return d.To == k || d.To.Many() && k.Namespace != "" && d.To == k.Anywhere()
}

// Destinations are those of each rule that selects an object; nil when all copies of it belong in its own place, as nearly always.
type Destinations []Destination

// UnlessHome is nil where all copies are in the place of their source.
func (d Destinations) UnlessHome(home Key) Destinations {
	if slices.ContainsFunc(d, func(x Destination) bool { return x != Destination{To: home} }) {
		return d
	}
	return nil
}

// Places are the places of the copies, each once, those in many namespaces as one; home is that of the object.
func (d Destinations) Places(home Key) iter.Seq[Key] {
	const few = 16
	return func(yield func(Key) bool) {
		if d == nil {
			yield(home)
			return
		}
		var seen map[Key]struct{}
		if len(d) > few {
			seen = make(map[Key]struct{}, len(d))
		}
		for i, x := range d {
			known := false
			if seen == nil {
				known = slices.Contains(d[:i], x)
			} else if _, known = seen[x.To]; !known && x.Fault == "" {
				seen[x.To] = struct{}{}
			}
			if x.Fault == "" && !known && !yield(x.To) {
				return
			}
		}
	}
}

// Unlike tells the places where another rule makes a copy of an object than did before, or none. rules have these destinations, then those before; home is the
// place of the object.
func (d Destinations) Unlike(rules []string, before Destinations, then []string, home Key) func(Key) bool {
	of := func(d Destinations, i int) Destination {
		if d == nil {
			return Destination{To: home}
		}
		return d[i]
	}
	was := make(map[string]Destination, len(then))
	for i, rule := range then {
		was[rule] = of(before, i)
	}
	var changed []Destination
	for i, rule := range rules {
		now := of(d, i)
		if old, ok := was[rule]; ok && old == now {
			delete(was, rule)
		} else {
			changed = append(changed, now)
		}
	}
	changed = slices.AppendSeq(changed, maps.Values(was))
	return func(k Key) bool {
		return slices.ContainsFunc(changed, func(d Destination) bool { return d.Reaches(k) })
	}
}

// Any says that the copy of some rule belongs in a place, or may, that is what is asked for. rules have these destinations.
func (d Destinations) Any(rules []string, k Key, is func(rules []string) bool) bool {
	if d == nil {
		return is(rules)
	}
	for i, x := range d {
		if (x.To.Many() || x.To == k) && is(rules[i:i+1]) {
			return true
		}
	}
	return false
}

// Faulty says that where some copy belongs cannot be told.
func (d Destinations) Faulty() bool {
	return slices.ContainsFunc(d, func(x Destination) bool { return x.Fault != "" })
}
