// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/roster-mesh/roster/syncrules/engine/turns"
)

// Path is where an account is in the tree: those that admitted the cluster, from the one that is next to the own cluster, then itself with all that it admitted, and
// itself alone. Those that no path leads to stand for one. The rules of a cluster are beside it, or what they write because of others would be charged to its own objects;
// below them are the owners of the objects, as in the tree.
func Path(own string, of Account, parent func(id string) string) turns.Path {
	author, owner, ofRules := strings.Cut(string(of), between)
	path := branchOf(own, author, parent)
	if !ofRules {
		return append(path, author+alone)
	}
	rules := author + between
	path[len(path)-1] = rules // another cluster has rules that are charged to it
	for _, id := range append(branchOf(own, owner, parent), owner+alone) {
		path = append(path, rules+between+id)
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

// manyPaths is how many are kept: each may take two kilobytes.
const manyPaths = 4096

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

// Lines are the paths of the rules of authors with the objects of an owner; without authors, or an owner, those of the own cluster.
func (p *Paths) Lines(owner string, authors []string, now time.Time) []turns.Path {
	if len(authors) == 0 {
		authors = []string{p.own}
	}
	lines := make([]turns.Path, 0, len(authors))
	for _, author := range authors {
		lines = append(lines, p.of(By{Author: author, Owner: cmp.Or(owner, p.own)}, now))
	}
	return lines
}

// of is the path of the rules of an author with the objects of an owner.
func (p *Paths) of(by By, now time.Time) turns.Path {
	if now.After(p.until) || len(p.known) >= manyPaths {
		p.known, p.until = map[By]turns.Path{}, now.Add(pathsFresh)
	}
	path := p.known[by]
	if path == nil {
		path = Path(p.own, by.Account(p.own), p.parent)
		p.known[by] = path
	}
	return path
}
