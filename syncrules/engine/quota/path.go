// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"slices"
	"strings"
	"time"

	"github.com/roster-mesh/roster/syncrules/engine/turns"
)

// Path is where an account is in the tree: those that admitted the cluster, from the one that is next to the own cluster, then itself with all that it admitted, and
// itself alone. Those that no path leads to stand for one. The rules of a cluster are below it, and with them the owners of the objects likewise.
func Path(own string, of Account, parent func(id string) string) turns.Path {
	author, owner, ofRules := strings.Cut(string(of), between)
	if !ofRules {
		return append(branchOf(own, author, parent), author+alone)
	}
	path := append(branchOf(own, author, parent), author+between)
	for _, id := range append(branchOf(own, owner, parent), owner+alone) {
		path = append(path, author+between+id)
	}
	return path
}

// branchOf is who is above a cluster, and itself.
func branchOf(own, of string, parent func(id string) string) (path []string) {
	if of == own {
		return nil
	}
	path = append(path, of)
	id := parent(of)
	for ; id != own && id != ""; id = parent(id) {
		if len(path) >= deepest {
			id, path = "", path[:1]
			break
		}
		path = append(path, id)
	}
	if id == "" {
		path = append(path, "")
	}
	slices.Reverse(path)
	return path
}

// Paths are those of accounts. Who admitted whom is looked at again after a second.
type Paths struct {
	own    string
	parent func(id string) string
	known  map[By]turns.Path
	until  time.Time
}

// NewPaths returns the paths as they are in the tree of own; without parent own admitted all.
func NewPaths(own string, parent func(id string) string) *Paths {
	if parent == nil {
		parent = func(string) string { return own }
	}
	return &Paths{own: own, parent: parent}
}

// Of is the path of the rules of an author with the objects of an owner.
func (p *Paths) Of(by By, now time.Time) turns.Path {
	if now.After(p.until) {
		p.known, p.until = map[By]turns.Path{}, now.Add(time.Second)
	}
	path := p.known[by]
	if path == nil {
		path = Path(p.own, by.Account(p.own), p.parent)
		p.known[by] = path
	}
	return path
}
