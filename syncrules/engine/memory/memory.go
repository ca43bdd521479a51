// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// perObject is what an object takes beside its bytes: its names, its places in maps, and what became of it, where its copy is not made.
	perObject = 2 << 10
	// unit is that in which memory is shared.
	unit = 1 << 10
	// fresh is for how long shares are used: to compute them takes milliseconds where there are thousands of clusters.
	fresh = time.Second
	// divisions is how often they are computed in that time, for clusters that came since. Those that come after so many have none
	// until then.
	divisions = 32
	// slack is the part of all that who asks is taken to want beside what it asks for.
	slack = 64
)

// Memory is what is held of all clusters. It is safe for concurrent use.
type Memory struct {
	most  int64
	share func(total int, wants map[string]int) map[string]int
	all   atomic.Int64

	mu       sync.Mutex
	clusters map[string]*Cluster
	shares   map[string]int // in units, as they were when
	shared   time.Time
	divided  int       // so often since
	since    time.Time // then
}

// New returns a Memory of so many bytes. share is called with a lock held: it returns what each cluster gets at most of total, if it
// wants everything and the others what they want.
func New(most int64, share func(total int, wants map[string]int) map[string]int) *Memory {
	return &Memory{most: most, share: share, clusters: map[string]*Cluster{}}
}

// Cluster is what is held of one cluster in views, and what lists on their way hold. It is safe for concurrent use.
type Cluster struct {
	Held, Coming Load

	id     string
	of     *Memory
	weight atomic.Int64
}

// Of returns what is held of a cluster.
func (m *Memory) Of(id string) *Cluster {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.clusters[id]
	if c == nil {
		c = &Cluster{id: id, of: m}
		m.clusters[id] = c
	}
	return c
}

// Forget is told that a cluster is gone, of which nothing is held any more.
func (m *Memory) Forget(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c := m.clusters[id]; c != nil && c.weight.Load() == 0 {
		delete(m.clusters, id)
	}
}

// Weight is what so many objects take, with so many bytes in all.
func Weight(objects, bytes int64) int64 { return bytes + perObject*objects }

// Hold says that so much more is held of the cluster in views.
func (c *Cluster) Hold(objects, bytes int64) {
	c.Held.Add(objects, bytes)
	c.add(Weight(objects, bytes))
}

func (c *Cluster) add(weight int64) {
	c.weight.Add(weight)
	c.of.all.Add(weight)
}

// Weight is what the cluster takes: what is held of it, and by how much what comes outweighs that.
func (c *Cluster) Weight() int64 { return c.weight.Load() }

// Fits says whether so much more may be held of the cluster.
func (c *Cluster) Fits(more int64) bool { return c.of.all.Load()+more <= c.of.most }

// GivesWay is the cluster that has most beyond its share, if this one, with so much more, is within its own; "" if nobody gives way.
func (c *Cluster) GivesWay(more int64) string {
	m := c.of
	m.mu.Lock()
	defer m.mu.Unlock()
	wants := c.weight.Load() + more
	if _, known := m.shares[c.id]; !known || time.Since(m.shared) >= fresh {
		m.divideLocked(c, wants)
	}
	if wants > m.shareLocked(c) {
		return ""
	}
	id := m.mostBeyondLocked(c)
	if id == "" { // the shares were those of a while ago
		m.divideLocked(c, wants)
		id = m.mostBeyondLocked(c)
	}
	return id
}

// divideLocked computes the shares, as if who asks wanted some more: so it is not done again for each bit that it takes. Of whom nothing
// is held has a share, too, or it would be done for each of them.
func (m *Memory) divideLocked(asks *Cluster, asked int64) {
	if time.Since(m.since) >= fresh {
		m.since, m.divided = time.Now(), 0
	}
	if m.divided++; m.divided > divisions {
		return
	}
	wants := make(map[string]int, len(m.clusters))
	for id, c := range m.clusters {
		wants[id] = int(c.weight.Load() / unit)
	}
	wants[asks.id] = int((asked + m.most/slack) / unit)
	m.shares, m.shared = m.share(int(m.most/unit), wants), time.Now()
}

func (m *Memory) mostBeyondLocked(than *Cluster) (id string) {
	most := int64(0)
	for _, c := range m.clusters {
		if by := c.weight.Load() - m.shareLocked(c); c != than && (by > most || by == most && by > 0 && c.id < id) {
			id, most = c.id, by
		}
	}
	return id
}

func (m *Memory) shareLocked(c *Cluster) int64 { return int64(m.shares[c.id]) * unit }

// Equally shares among clusters as equals.
func Equally(total int, wants map[string]int) map[string]int {
	shares := make(map[string]int, len(wants))
	for id := range wants {
		shares[id] = total / len(wants)
	}
	return shares
}
