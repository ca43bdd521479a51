// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"
)

// Load is how much there is of something.
type Load struct{ Objects, Bytes atomic.Int64 }

// Add adds so much.
func (l *Load) Add(objects, bytes int64) {
	l.Objects.Add(objects)
	l.Bytes.Add(bytes)
}

// Exceeds says that there is more of either.
func (l *Load) Exceeds(objects, bytes int64) bool {
	return l.Objects.Load() > objects || l.Bytes.Load() > bytes
}

// Weight is what it takes.
func (l *Load) Weight() int64 { return Weight(l.Objects.Load(), l.Bytes.Load()) }

// Coming is what a Source has collected and not handed over yet, each object once: lists are begun anew, and what
// was handed over before is looked at twice. It is safe for concurrent use.
type Coming struct {
	mu    sync.Mutex
	sizes map[types.NamespacedName]int64
	last  Arrival
	// extra is by how much it outweighs what the view holds and it is to replace. That counts for the memory: a view that is listed
	// again takes none.
	extra int64
	Load
}

// Arrival is an object that the Source was told to keep.
type Arrival struct {
	Name    types.NamespacedName
	Version string // resourceVersion
	First   int    // of the rules that select it
}

// FirstOf is the first rule that selects an object, which is known if the Source asked about this one last.
func (c *Coming) FirstOf(name types.NamespacedName, version string) (first int, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known = c.last.Version != "" && c.last.Version == version && c.last.Name == name
	return c.last.First, known
}

// Refuse says that the object that the Source asked about last is not one to keep.
func (c *Coming) Refuse() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = Arrival{}
}

// Collect counts an object of a cluster for a view that holds so much, and says whether more memory is taken.
func (c *Coming) Collect(object Arrival, size int64, of *Cluster, held *Load) (grew bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old, known := c.sizes[object.Name]
	if c.sizes == nil {
		c.sizes = map[types.NamespacedName]int64{}
	}
	c.sizes[object.Name], c.last = size, object
	objects := int64(1)
	if known {
		objects = 0
	}
	c.Add(objects, size-old)
	of.Coming.Add(objects, size-old)
	was := c.extra
	c.extra = max(0, c.Weight()-held.Weight())
	of.add(c.extra - was)
	return c.extra > was
}

// Release says that the Source holds nothing more back: it was handed over, or thrown away.
func (c *Coming) Release(of *Cluster) {
	c.mu.Lock()
	defer c.mu.Unlock()
	objects, bytes := c.Objects.Load(), c.Bytes.Load()
	c.Add(-objects, -bytes)
	of.Coming.Add(-objects, -bytes)
	of.add(-c.extra)
	c.sizes, c.last, c.extra = nil, Arrival{}, 0
}

// Extra is what it takes beside what the view holds.
func (c *Coming) Extra() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.extra
}
