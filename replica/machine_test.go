// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// A machine is a few clusters, their API servers and the packets between them. rapid
// draws what happens, shrinks what fails, and replays it by seed.
type machine struct {
	clusters []*cluster
	flying   []packet
	cut      map[[2]int]bool
}

type packet struct {
	from, to int
	msg      []byte
}

// cluster is the truth of one origin, which survives every restart of its agent, and the
// agent's replica, which survives none, but for what is on its disk, if it has one: the last one has.
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
	saw     map[seenKey]int // deaths of the newest incarnation that this replica has shown
}

type object struct {
	payload   string
	withdrawn bool
	announced bool
}

type seenKey struct{ origin, name string }

func newMachine(t *rapid.T) *machine {
	m := &machine{cut: map[[2]int]bool{}}
	ids := []string{"a", "b", "c"}
	for _, id := range ids {
		c := &cluster{
			id: id, ring: newRing(ids...), api: map[string]object{}, deaths: map[string]int{}, stale: map[string]bool{},
		}
		m.clusters = append(m.clusters, c)
	}
	for i := range m.clusters {
		m.start(t, i, 1)
		m.finish(t, i)
	}
	return m
}

func (m *machine) start(t *rapid.T, i int, epoch uint64) {
	c := m.clusters[i]
	c.shot, c.log = nil, &memoryLog{}
	m.boot(t, i, epoch)
	for name, o := range c.api {
		o.announced = false
		c.api[name] = o
	}
}

// boot starts an agent with what is on its disk, if it has one.
func (m *machine) boot(t *rapid.T, i int, epoch uint64) {
	c := m.clusters[i]
	o := Options{Self: c.id, PrivateKey: testKey(c.id), Keyring: c.ring, Broadcast: func(msgs ...[]byte) { m.broadcast(i, msgs...) }}
	c.replica, c.epoch, c.saw = restored(t, o, c.shot, c.log.durable), epoch, map[seenKey]int{}
	var log Log
	if i == len(m.clusters)-1 {
		c.log = &memoryLog{replica: c.replica, durable: c.log.durable}
		log = c.log
	}
	if err := c.replica.Open(epoch, log); err != nil {
		t.Fatal(err)
	}
}

// crash loses what is not on the disk, and says everything again: what is new.
func (m *machine) crash(t *rapid.T) {
	i := len(m.clusters) - 1
	c := m.clusters[i]
	held := restored(t, Options{Self: c.id, PrivateKey: testKey(c.id), Keyring: c.ring}, c.shot, c.log.durable).LastEpoch()
	if held < c.epoch {
		c.epoch++ // it was recorded, and nothing said in it
	}
	m.boot(t, i, c.epoch)
	for _, name := range []string{"p", "q", "r"} {
		m.announce(t, i, name)
	}
}

// commit makes durable what waits for it.
func (m *machine) commit(t *rapid.T, most int) {
	c := m.clusters[len(m.clusters)-1]
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

func (m *machine) broadcast(from int, msgs ...[]byte) {
	for _, msg := range msgs {
		for to := range m.clusters {
			if to != from {
				m.flying = append(m.flying, packet{from, to, msg})
			}
		}
	}
}

func (m *machine) connected(i, j int) bool { return !m.cut[[2]int{min(i, j), max(i, j)}] }

func (m *machine) sync(t *rapid.T, to, from int) {
	if to == from || !m.connected(to, from) {
		return
	}
	a, b := m.clusters[to], m.clusters[from]
	if lack, err := a.replica.Lacks(b.replica.Digest()); err != nil || !lack {
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	err := b.replica.Delta(a.replica.Digest(), func(msg []byte) error {
		_, _, err := a.replica.Merge(msg, b.id)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
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

func (m *machine) cluster(t *rapid.T) int {
	return rapid.IntRange(0, len(m.clusters)-1).Draw(t, "cluster")
}

func (m *machine) actions() map[string]func(*rapid.T) {
	names := rapid.SampledFrom([]string{"p", "q", "r"})
	deliver := func(t *rapid.T, keep bool) {
		if len(m.flying) == 0 {
			return
		}
		at := rapid.IntRange(0, len(m.flying)-1).Draw(t, "packet")
		p := m.flying[at]
		if !keep {
			m.flying = slices.Delete(m.flying, at, at+1)
		}
		if !m.connected(p.from, p.to) {
			return
		}
		_, pull, err := m.clusters[p.to].replica.Merge(p.msg, "")
		if err != nil {
			t.Fatal(err)
		}
		if pull {
			m.sync(t, p.to, p.from)
		}
	}
	return map[string]func(*rapid.T){
		"write": func(t *rapid.T) {
			i, name := m.cluster(t), names.Draw(t, "name")
			c := m.clusters[i]
			c.api[name] = object{payload: fmt.Sprintf("%d/%d", c.deaths[name], rapid.IntRange(0, 2).Draw(t, "text"))}
			m.announce(t, i, name)
		},
		"delete": func(t *rapid.T) {
			i, name := m.cluster(t), names.Draw(t, "name")
			c := m.clusters[i]
			if o, ok := c.api[name]; ok {
				c.deaths[name]++
				c.stale[name] = c.stale[name] || o.withdrawn
				delete(c.api, name)
				m.announce(t, i, name)
			}
		},
		"withdraw": func(t *rapid.T) {
			i, name := m.cluster(t), names.Draw(t, "name")
			if o, ok := m.clusters[i].api[name]; ok {
				o.withdrawn = true
				m.clusters[i].stale[name] = true
				m.clusters[i].api[name] = o
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
			m.cut[[2]int{min(i, j), max(i, j)}] = true
		},
		"heal":   func(*rapid.T) { clear(m.cut) },
		"sync":   func(t *rapid.T) { m.sync(t, m.cluster(t), m.cluster(t)) },
		"finish": func(t *rapid.T) { m.finish(t, m.cluster(t)) },
		"reopen": func(t *rapid.T) { m.reopen(t, m.cluster(t)) },
		"commit": func(t *rapid.T) { m.commit(t, rapid.IntRange(1, 9).Draw(t, "operations")) },
		"crash":  m.crash,
		"snapshot": func(t *rapid.T) {
			c := m.clusters[len(m.clusters)-1]
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

// check states what holds at every moment: nothing is shown older than it was shown
// before, and nothing is called absent that its origin has not deleted.
func (m *machine) check(t *rapid.T) {
	for _, c := range m.clusters {
		for _, o := range m.clusters {
			if o == c || o.lost {
				continue
			}
			for _, name := range []string{"p", "q", "r"} {
				key := seenKey{o.id, name}
				last, seen := c.saw[key]
				for _, e := range c.replica.Find(rule(name)) {
					if e.Origin != o.id || e.Status != Live {
						continue
					}
					var deaths int
					if _, err := fmt.Sscanf(string(e.Payload), "%d/", &deaths); err != nil {
						t.Fatalf("payload %q: %v", e.Payload, err)
					}
					if deaths < last {
						t.Fatalf("%s shows %s of %s again, deleted %d times, as it was after %d", c.id, name, o.id, last, deaths)
					}
					c.saw[key] = deaths
				}
				if seen && o.deaths[name] <= last && c.replica.Absent(rule(name), o.id) {
					t.Fatalf("%s calls %s of %s absent, which was not deleted", c.id, name, o.id)
				}
			}
		}
	}
}

// settle ends all trouble and lets the members talk until they are quiet.
func (m *machine) settle(t *rapid.T) {
	clear(m.cut)
	for i := range m.clusters {
		m.finish(t, i)
	}
	for range 20 {
		quiet := true
		m.commit(t, 1<<20)
		for i, a := range m.clusters {
			for j, b := range m.clusters {
				lack, err := a.replica.Lacks(b.replica.Digest())
				if err != nil {
					t.Fatal(err)
				}
				if i != j && lack {
					quiet = false
					m.sync(t, i, j)
				}
			}
			if m.reopen(t, i) {
				quiet = false
			}
		}
		if quiet && len(m.clusters[len(m.clusters)-1].log.queue) == 0 {
			return
		}
	}
	for _, c := range m.clusters {
		t.Logf("%s holds %v", c.id, contents(c.replica.state))
	}
	t.Fatal("members never stop pulling")
}

func (m *machine) audit(t *rapid.T) {
	first := m.clusters[0].replica
	for _, c := range m.clusters {
		if string(c.replica.Digest()[:34]) != string(first.Digest()[:34]) {
			t.Fatalf("%s and %s differ: %v %v", first.self, c.id, contents(first.state), contents(c.replica.state))
		}
		for _, o := range m.clusters {
			for _, name := range []string{"p", "q", "r"} {
				m.auditKey(t, c, o, name)
			}
		}
	}
}

func (m *machine) auditKey(t *rapid.T, at, origin *cluster, name string) {
	got := "nothing"
	for _, e := range at.replica.Find(rule(name)) {
		if e.Origin == origin.id {
			got = fmt.Sprint(e.Status, " ", string(e.Payload))
		}
	}
	want := "nothing"
	if o, ok := origin.api[name]; ok {
		want = fmt.Sprint(Live, " ", o.payload)
		if o.withdrawn {
			want = fmt.Sprint(Withdrawn, " ", o.payload)
		}
	} else if origin.stale[name] && got != "nothing" && got[0] == fmt.Sprint(Withdrawn)[0] {
		return // it was withdrawn once: that may be all that is remembered
	}
	if got != want {
		t.Fatalf("%s holds %q of %s as %s, want %s", at.id, name, origin.id, got, want)
	}
	if want == "nothing" && !at.replica.Absent(rule(name), origin.id) {
		t.Fatalf("%s cannot prove that %s of %s is gone", at.id, name, origin.id)
	}
}

func TestMachine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine(t)
		t.Repeat(m.actions())
		m.settle(t)
		m.audit(t)
	})
}
