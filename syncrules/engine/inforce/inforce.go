// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package inforce

import (
	"fmt"

	"github.com/roster-mesh/roster/syncrules/engine/place"
	"github.com/roster-mesh/roster/syncrules/engine/quota"
)

const (
	// MaxRules is how many rules of one author are in force: of the oldest ones, those whose watches fit.
	MaxRules = 256
	// MaxViews is how many watches they open at one other cluster. Rules share those that are equal.
	MaxViews = 2048
)

// Excess is why a rule is not in force. Zero means that it is.
type Excess uint8

const (
	None Excess = iota
	Rules
	Views
)

// Text says it to people.
func (x Excess) Text(author string) string {
	const first = "; older rules come first: delete some of them, or make one rule of several"
	switch x {
	case Rules:
		return fmt.Sprintf("%d rules of cluster %s are in force here, the most that are%s", MaxRules, author, first)
	case Views:
		return fmt.Sprintf("with this rule, those of cluster %s would open more than %d watches (one for each kind and namespace) at each other cluster, the most that are opened%s", author, MaxViews, first)
	case None:
	}
	return ""
}

// Places are the places of all authors.
type Places struct{ taken map[quota.Account]*taken }

// taken is what the rules of one author have taken.
type taken struct {
	rules int
	// lists are what the rules need, sum of them in all. Only where that is too much it matters which ones are equal.
	lists [][]place.Scope
	sum   int
	views map[place.Scope]struct{} // nil until then
}

// Take gives a rule its place, or says why there is none. It is asked about older rules first. views are the watches that
// the rule needs at another cluster.
func (p *Places) Take(author string, views []place.Scope) Excess {
	account := quota.AccountOf(author)
	t := p.taken[account]
	if t == nil {
		if p.taken == nil {
			p.taken = map[quota.Account]*taken{}
		}
		t = &taken{}
		p.taken[account] = t
	}
	if t.rules >= MaxRules {
		return Rules
	}
	t.rules++ // also where the watches are too many, or somebody's thousands of rules would all be looked at
	if !t.fits(views) {
		return Views
	}
	return None
}

// fits takes the watches, if they are not too many.
func (t *taken) fits(views []place.Scope) bool {
	if t.views == nil && t.sum+len(views) <= MaxViews {
		t.lists, t.sum = append(t.lists, views), t.sum+len(views)
		return true
	}
	if t.views == nil {
		t.views = map[place.Scope]struct{}{}
		for _, list := range t.lists {
			t.add(list)
		}
	}
	var fresh []place.Scope // a rule has none twice
	for _, s := range views {
		if _, ok := t.views[s]; ok {
			continue
		}
		if len(t.views)+len(fresh) >= MaxViews {
			return false
		}
		fresh = append(fresh, s)
	}
	t.add(fresh)
	return true
}

func (t *taken) add(views []place.Scope) {
	for _, s := range views {
		t.views[s] = struct{}{}
	}
}
