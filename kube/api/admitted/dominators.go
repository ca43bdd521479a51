// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package admitted

import (
	"cmp"
	"slices"
)

// dominators is a graph whose node 0 is the root, and then the tree of its immediate dominators: each node is below the nearest one
// that every path to it leads through. It is found by semidominators, with compressed paths: Lengauer and Tarjan, "A Fast Algorithm
// for Finding Dominators in a Flowgraph". The iteration of Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm", is shorter,
// and takes as many passes as whoever makes up the graph wishes.
type dominators struct {
	to, from [][]int // edges
	idom     []int   // by node; -1 for the root, and where no path leads
	depth    []int
	first    []int // first and last number a node and all below it
	last     []int
	order    []int // the nodes that a path leads to, each after who is above it

	number, semi, best, above []int // while it is looked for: by number
}

func newDominators(nodes int) *dominators {
	return &dominators{to: make([][]int, nodes), from: make([][]int, nodes)}
}

func (d *dominators) edge(from, to int) {
	d.to[from], d.from[to] = append(d.to[from], to), append(d.from[to], from)
}

// find looks for the tree.
func (d *dominators) find() {
	n := len(d.to)
	d.idom, d.number = slices.Repeat([]int{-1}, n), slices.Repeat([]int{-1}, n)
	parent := d.search()
	n = len(d.order)
	d.semi, d.best, d.above = make([]int, n), make([]int, n), slices.Repeat([]int{-1}, n)
	dom, buckets := make([]int, n), make([][]int, n)
	for i := range n {
		d.semi[i], d.best[i] = i, i
	}
	for w := n - 1; w > 0; w-- {
		for _, from := range d.from[d.order[w]] {
			if v := d.number[from]; v >= 0 {
				d.semi[w] = min(d.semi[w], d.semi[d.eval(v)])
			}
		}
		buckets[d.semi[w]] = append(buckets[d.semi[w]], w)
		d.above[w] = parent[w]
		for _, v := range buckets[parent[w]] {
			if dom[v] = parent[w]; d.semi[d.eval(v)] < d.semi[v] {
				dom[v] = d.eval(v)
			}
		}
		buckets[parent[w]] = nil
	}
	for w := 1; w < n; w++ {
		if dom[w] != d.semi[w] {
			dom[w] = dom[dom[w]]
		}
		d.idom[d.order[w]] = d.order[dom[w]]
	}
	d.count()
}

// search numbers the nodes depth first, and returns of each number that of the node which it was reached from.
func (d *dominators) search() (parent []int) {
	next := make([]int, len(d.to))
	d.number[0], d.order, parent = 0, []int{0}, []int{0}
	for path := []int{0}; len(path) > 0; {
		at := path[len(path)-1]
		if next[at] == len(d.to[at]) {
			path = path[:len(path)-1]
			continue
		}
		to := d.to[at][next[at]]
		if next[at]++; d.number[to] < 0 {
			d.number[to] = len(d.order)
			d.order, parent, path = append(d.order, to), append(parent, d.number[at]), append(path, to)
		}
	}
	return parent
}

// eval is who has the least semidominator of those above v that were looked at, with v itself.
func (d *dominators) eval(v int) int {
	var path []int
	for at := v; d.above[at] >= 0 && d.above[d.above[at]] >= 0; at = d.above[at] {
		path = append(path, at)
	}
	for _, at := range slices.Backward(path) {
		up := d.above[at]
		if d.semi[d.best[up]] < d.semi[d.best[at]] {
			d.best[at] = d.best[up]
		}
		d.above[at] = d.above[up]
	}
	if d.above[v] < 0 {
		return v
	}
	return d.best[v]
}

// count notes how deep each node is, and which are below which.
func (d *dominators) count() {
	n := len(d.to)
	d.depth, d.first, d.last = make([]int, n), make([]int, n), make([]int, n)
	size, next := make([]int, n), make([]int, n)
	for _, at := range slices.Backward(d.order) {
		if size[at]++; at > 0 {
			size[d.idom[at]] += size[at]
		}
	}
	for _, at := range d.order {
		if at > 0 {
			up := d.idom[at]
			d.depth[at], d.first[at] = d.depth[up]+1, next[up]
			next[up] += size[at]
		}
		next[at], d.last[at] = d.first[at]+1, d.first[at]+size[at]-1
	}
}

// leadsThrough says whether every path to a node leads through another one, or that one itself.
func (d *dominators) leadsThrough(to, over int) bool {
	return d.number[to] >= 0 && d.number[over] >= 0 && d.first[over] <= d.first[to] && d.first[to] <= d.last[over]
}

// dominated is what is reached, each below the nearest cluster that every path to it leads through. An admission that takes two
// clusters, which are not one below the other, leads through both, and no place in a tree says so: what is admitted by such ones alone
// is below nobody, or whoever says that it relies on others would have those answer for what it invents.
func (t Tree) dominated(reached []Cluster) []Cluster {
	at := map[string]int{t.self: 0}
	for i, c := range reached {
		at[c.ClusterID] = i + 1
	}
	lost := map[admission]bool{}
	for round := 0; ; round++ { // the third takes none of them
		d, pairs := t.graph(reached, at, lost, round == 2)
		d.find()
		was := len(lost)
		for _, a := range pairs {
			author, via := at[a.author], at[a.via]
			if !d.leadsThrough(author, via) && !d.leadsThrough(via, author) {
				lost[a] = true
			}
		}
		if len(lost) > was && round < 2 {
			continue
		}
		placed := slices.Clone(reached)
		for i := range placed {
			up := d.idom[i+1]
			placed[i].Depth, placed[i].Parent = d.depth[i+1], t.self
			if nobody := len(reached) + 1; up == nobody {
				placed[i].Parent = ""
			} else if up > 0 {
				placed[i].Parent = reached[up-1].ClusterID
			}
		}
		slices.SortFunc(placed, func(a, b Cluster) int {
			return cmp.Or(cmp.Compare(a.Depth, b.Depth), cmp.Compare(a.ClusterID, b.ClusterID))
		})
		return placed
	}
}

// graph is that of the admissions; the last node is nobody. Of an admission that takes two clusters it has an edge from the one that is
// reached last, and returns it, or from nobody, where it is lost, or all are. It is left out where one of the two suffices.
func (t Tree) graph(reached []Cluster, at map[string]int, lost map[admission]bool, all bool) (d *dominators, pairs []admission) {
	nobody := len(reached) + 1
	d = newDominators(nobody + 1)
	d.edge(0, nobody)
	for i, c := range reached {
		alone := map[string]bool{}
		for _, a := range t.of[c.ClusterID] {
			if from, ok := at[a.author]; ok && a.via == "" {
				alone[a.author] = true
				d.edge(from, i+1)
			}
		}
		for _, a := range t.of[c.ClusterID] {
			author, there := at[a.author]
			via, too := at[a.via]
			switch {
			case a.via == "" || !there || !too || alone[a.author] || alone[a.via]:
			case all && author > 0 && via > 0 || lost[a]:
				d.edge(nobody, i+1)
			default:
				d.edge(max(author, via), i+1)
				pairs = append(pairs, a)
			}
		}
	}
	return d, pairs
}
