// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"crypto/ed25519"
	"fmt"
	"maps"
	"slices"

	"pgregory.net/rapid"
)

// A machine is a few clusters, their API servers and the packets between them. rapid
// draws what happens, shrinks what fails, and prints the seed that replays it:
//
//	go test ./replica -run TestMachine -rapid.seed=N
type machine struct {
	clusters []*cluster
	observer *cluster // writes nothing, and has room for little
	flying   []packet
	cut      map[[2]int]bool // from, to
	verified map[string]bool // messages whose signature the audit has checked
}

// disked is the cluster that has a disk.
const disked = 2

// maxFlying keeps what is forwarded from growing for ever.
const maxFlying = 100

type packet struct {
	from, to int
	msg      []byte
}

// cluster is the truth of one origin, which survives every restart of its agent, and the
// agent's replica, which survives none, but for what is on its disk, if it has one (disked).
type cluster struct {
	id      string
	replica *Replica
	ring    *ring
	log     *memoryLog // of a cluster with a disk
	shot    []byte     // snapshot on it
	epoch   uint64
	lost    bool // restarted without knowing its epoch: until it reopens, numbers mean nothing
	api     map[string]object
	deaths  map[string]int // times that an object of this name was deleted
	stale   map[string]bool
	retired map[string]string // payloads under which objects were withdrawn, and nothing was said of them since
	writes  int               // versions given out so far
	saw     map[seenKey]sight
	live    map[string]Entry  // the newest with which each object was published as one that is not withdrawn
	kept    map[seenKey]Entry // what the replica has shown as withdrawn
}

// sight is the newest that a replica has shown of an object: how often the object had been deleted by
// then, and its version.
type sight struct{ deaths, version int }

type object struct {
	payload   string
	withdrawn bool
	announced bool
}

type seenKey struct{ origin, name string }

func newCluster(id string, ring *ring) *cluster {
	return &cluster{
		id: id, ring: ring, api: map[string]object{}, deaths: map[string]int{}, stale: map[string]bool{},
		retired: map[string]string{}, live: map[string]Entry{}, saw: map[seenKey]sight{}, kept: map[seenKey]Entry{},
	}
}

func newMachine(t *rapid.T) *machine {
	m := &machine{cut: map[[2]int]bool{}, verified: map[string]bool{}}
	ids := []string{"a", "b", "c", liar}
	for _, id := range ids[:3] {
		m.clusters = append(m.clusters, newCluster(id, newRing(ids...)))
	}
	for i := range m.clusters {
		m.start(t, i, 1)
		m.finish(t, i)
	}
	m.observer = newCluster("observer", newRing(ids...))
	var err error
	m.observer.replica, err = New(Options{
		Self: m.observer.id, PrivateKey: testKey(m.observer.id), Epoch: 1, Keyring: m.observer.ring,
		Limits: Limits{Entries: 5, Bytes: 700, TotalBytes: 2500},
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// join adds a cluster that one member is swapped with and the others hear of.
func (m *machine) join(t *rapid.T) {
	if len(m.clusters) > 3 {
		return
	}
	sponsor := m.clusters[m.cluster(t)]
	c := newCluster("d", newRing(sponsor.id, "d", liar))
	if err := sponsor.ring.Introduce(c.id, testKey(c.id).Public().(ed25519.PublicKey), ""); err != nil {
		t.Fatal(err)
	}
	m.clusters = append(m.clusters, c)
	m.start(t, len(m.clusters)-1, 1)
}

func (m *machine) start(t *rapid.T, i int, epoch uint64) {
	c := m.clusters[i]
	c.shot, c.log = nil, &memoryLog{}
	m.boot(t, i, epoch)
	for name, o := range c.api {
		o.announced = false
		c.api[name] = o
	}
	m.introduce(t, i)
}

// introduce publishes a member's Cluster entry.
func (m *machine) introduce(t *rapid.T, i int) {
	c := m.clusters[i]
	msgs, err := c.replica.Publish(Key{KindCluster, c.id}, Live, []byte("cluster"))
	if err != nil {
		t.Fatal(err)
	}
	m.broadcast(i, msgs...)
}

// boot starts an agent with what is on its disk, if it has one.
func (m *machine) boot(t *rapid.T, i int, epoch uint64) {
	c := m.clusters[i]
	o := Options{Self: c.id, PrivateKey: testKey(c.id), Keyring: c.ring, Broadcast: func(msgs ...[]byte) { m.broadcast(i, msgs...) }}
	c.replica, c.epoch = restored(t, o, c.shot, c.log.durable), epoch
	clear(c.saw)
	clear(c.kept)
	var log Log
	if i == disked {
		c.log = &memoryLog{replica: c.replica, durable: c.log.durable}
		log = c.log
	}
	if err := c.replica.Open(epoch, log); err != nil {
		t.Fatal(err)
	}
}

// crash loses what is not on the disk, and says everything again: what is new.
func (m *machine) crash(t *rapid.T) {
	i := disked
	c := m.clusters[i]
	held := restored(t, Options{Self: c.id, PrivateKey: testKey(c.id), Keyring: c.ring}, c.shot, c.log.durable).LastEpoch()
	if held < c.epoch {
		c.epoch++ // it was recorded, and nothing said in it
	}
	m.boot(t, i, c.epoch)
	m.introduce(t, i)
	for _, name := range []string{"p", "q", "r"} {
		m.announce(t, i, name)
	}
}

// commit makes durable what waits for it.
func (m *machine) commit(t *rapid.T, most int) {
	c := m.clusters[disked]
	c.log.commit(t, min(most, len(c.log.queue)))
}

// announce publishes an object as it is in the API server.
func (m *machine) announce(t *rapid.T, i int, name string) {
	c := m.clusters[i]
	o, ok := c.api[name]
	status := Live
	switch {
	case !ok:
		status = Deleted
	case o.withdrawn:
		status = Withdrawn
	}
	msgs, err := c.replica.Publish(rule(name), status, []byte(o.payload))
	if err != nil {
		t.Fatal(err)
	}
	if ok {
		o.announced = true
		c.api[name] = o
	}
	m.broadcast(i, msgs...)
}

// finish announces what is left and completes the epoch.
func (m *machine) finish(t *rapid.T, i int) {
	c := m.clusters[i]
	for _, name := range slices.Sorted(maps.Keys(c.api)) {
		if !c.api[name].announced {
			m.announce(t, i, name)
		}
	}
	m.broadcast(i, c.replica.Complete()...)
}

// reopen is what an agent does on meeting its own signature above its position.
func (m *machine) reopen(t *rapid.T, i int) bool {
	c := m.clusters[i]
	seen := c.replica.OwnEpochSeen()
	if seen == 0 {
		return false
	}
	c.epoch = seen + 1
	msgs, err := c.replica.Reopen(c.epoch)
	if err != nil {
		t.Fatal(err)
	}
	m.broadcast(i, msgs...)
	return true
}

// collect is what an agent does about its tombstones.
func (m *machine) collect(t *rapid.T, i int) {
	c := m.clusters[i]
	if !c.replica.TooManyTombstones(0) {
		return
	}
	c.epoch++
	msgs, err := c.replica.Reopen(c.epoch)
	if err != nil {
		t.Fatal(err)
	}
	if c.replica.ownLocked().layer(c.epoch).tombstones > 0 {
		t.Fatalf("%s has tombstones after it collected them", c.id)
	}
	m.broadcast(i, msgs...)
}

func (m *machine) cluster(t *rapid.T) int {
	return rapid.IntRange(0, len(m.clusters)-1).Draw(t, "cluster")
}

func (m *machine) actions() map[string]func(*rapid.T) {
	names := rapid.SampledFrom([]string{"p", "q", "r"})
	deliver := func(t *rapid.T, keep bool) {
		for range rapid.IntRange(1, 20).Draw(t, "packets") {
			if len(m.flying) == 0 {
				return
			}
			at := rapid.IntRange(0, len(m.flying)-1).Draw(t, "packet")
			p := m.flying[at]
			if !keep {
				m.flying = slices.Delete(m.flying, at, at+1)
			}
			m.deliver(t, p)
		}
	}
	existing := func(t *rapid.T, c *cluster) (string, object) {
		if len(c.api) == 0 {
			return "", object{}
		}
		name := rapid.SampledFrom(slices.Sorted(maps.Keys(c.api))).Draw(t, "name")
		return name, c.api[name]
	}
	write := func(t *rapid.T, i int, name string) {
		c := m.clusters[i]
		if o, ok := c.api[name]; ok && rapid.Bool().Draw(t, "same") {
			c.api[name] = object{payload: o.payload} // at most it is no longer withdrawn
		} else {
			c.writes++
			c.api[name] = object{payload: fmt.Sprintf("%d/%d", c.deaths[name], c.writes)}
		}
		delete(c.retired, name)
		m.announce(t, i, name)
	}
	return map[string]func(*rapid.T){
		"write": func(t *rapid.T) {
			write(t, m.cluster(t), names.Draw(t, "name"))
		},
		"burst": func(t *rapid.T) {
			i := m.cluster(t)
			for range rapid.IntRange(2, 8).Draw(t, "writes") {
				write(t, i, names.Draw(t, "name"))
			}
		},
		"join":    m.join,
		"forge":   func(t *rapid.T) { m.forge(t, names) },
		"lie":     func(t *rapid.T) { m.lie(t, names) },
		"corrupt": m.corrupt,
		"observe": func(t *rapid.T) {
			m.pull(t, m.observer, m.clusters[m.cluster(t)])
			checkInvariants(t, m.observer.replica.state)
		},
		"delete": func(t *rapid.T) {
			i := m.cluster(t)
			c := m.clusters[i]
			if name, o := existing(t, c); name != "" {
				c.deaths[name]++
				c.stale[name] = c.stale[name] || o.withdrawn
				delete(c.api, name)
				m.announce(t, i, name)
			}
		},
		"withdraw": func(t *rapid.T) {
			i := m.cluster(t)
			c := m.clusters[i]
			if name, o := existing(t, c); name != "" {
				o.withdrawn = true
				c.stale[name], c.retired[name], c.api[name] = true, o.payload, o
				m.announce(t, i, name)
			}
		},
		"deliver":   func(t *rapid.T) { deliver(t, false) },
		"duplicate": func(t *rapid.T) { deliver(t, true) },
		"drop": func(t *rapid.T) {
			m.flying = m.flying[:rapid.IntRange(0, len(m.flying)).Draw(t, "left")]
		},
		"cut": func(t *rapid.T) {
			i, j := m.cluster(t), m.cluster(t)
			m.cut[[2]int{i, j}] = true
			m.cut[[2]int{j, i}] = rapid.Bool().Draw(t, "both ways")
		},
		"heal":    func(*rapid.T) { clear(m.cut) },
		"sync":    func(t *rapid.T) { m.sync(t, m.cluster(t), m.cluster(t)) },
		"finish":  func(t *rapid.T) { m.finish(t, m.cluster(t)) },
		"reopen":  func(t *rapid.T) { m.reopen(t, m.cluster(t)) },
		"collect": func(t *rapid.T) { m.collect(t, m.cluster(t)) },
		"commit":  func(t *rapid.T) { m.commit(t, rapid.IntRange(1, 9).Draw(t, "operations")) },
		"crash":   m.crash,
		"snapshot": func(t *rapid.T) {
			c := m.clusters[disked]
			c.shot, c.log.durable = snapshotOf(t, c.replica), nil
		},
		"restart": func(t *rapid.T) {
			i := m.cluster(t)
			m.start(t, i, m.clusters[i].epoch+1)
			for _, name := range slices.Sorted(maps.Keys(m.clusters[i].api)) {
				if rapid.Bool().Draw(t, "announced") {
					m.announce(t, i, name)
				}
			}
		},
		"restart without epoch": func(t *rapid.T) {
			i := m.cluster(t)
			m.clusters[i].lost = true
			m.start(t, i, 1)
		},
		"": m.check,
	}
}
