// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/roster-mesh/roster/mesh"
	"github.com/roster-mesh/roster/mesh/meshtest"
	"github.com/roster-mesh/roster/mesh/trust"
	"github.com/roster-mesh/roster/replica"
)

var seed = flag.Uint64("seed", 1, "what the tests do to whom, and which segments are lost")

// group is a number of agents on one network.
type group struct {
	t       *testing.T
	network *meshtest.Network
	random  *rand.Rand // what the test does next; for its goroutine alone

	mu     sync.RWMutex // of agents, for what runs beside the test
	agents []*agent
}

// agent is one cluster: a truth that survives restarts, and what runs.
type agent struct {
	group *group
	id    string
	key   ed25519.PrivateKey
	trust *trust.Table
	epoch uint64

	mu  sync.Mutex // of the truth, which other agents' checks read
	api map[replica.Key]object
	// deaths counts how often an object of that key was deleted. A copy that was seen
	// alive before the last death may be called absent.
	deaths map[replica.Key]int

	replica *replica.Replica
	mesh    *mesh.Mesh
	stop    context.CancelFunc
	stopped chan error
	seen    *seen
}

type object struct {
	version   int // counts on over deaths
	withdrawn bool
}

// seen is what one replica, in one life, has shown to its subscriber.
type seen struct {
	mu sync.Mutex
	at map[replica.Change]sight
}

type sight struct{ version, deaths int }

// bubble runs a simulation of n agents in virtual time.
func bubble(t *testing.T, n int, latency time.Duration, f func(t *testing.T, g *group)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		g := &group{t: t, network: meshtest.NewNetwork(latency), random: rand.New(rand.NewPCG(*seed, 0))}
		g.network.Seed(*seed)
		for i := range n {
			g.add(fmt.Sprintf("cluster-%02d", i))
		}
		for _, a := range g.agents[1:] {
			g.swap(g.agents[0], a)
		}
		for _, a := range g.agents {
			a.start(1)
		}
		f(t, g)
		for _, a := range g.agents {
			a.stop()
		}
		for _, a := range g.agents {
			if err := <-a.stopped; err != nil {
				t.Errorf("%s: %v", a.id, err)
			}
		}
		time.Sleep(time.Minute) // probes that were under way end
		t.Logf("%v of virtual time, %d MiB sent", time.Since(start).Round(time.Second), g.network.Sent()>>20)
	})
}

// add makes a cluster with a few objects.
func (g *group) add(id string) *agent {
	seed := sha256.Sum256([]byte("simulated " + id))
	a := &agent{
		group: g, id: id, key: ed25519.NewKeyFromSeed(seed[:]),
		api: map[replica.Key]object{}, deaths: map[replica.Key]int{},
	}
	self := trust.Pin{ClusterID: id, PublicKey: a.key.Public().(ed25519.PublicKey)}
	a.trust = trust.New(self, trust.Options{})
	a.api[a.cluster()] = object{version: 1}
	for _, name := range []string{"stays", "changes", "goes", "retires", "returns"} {
		a.api[a.rule(name)] = object{version: 1}
	}
	a.api[replica.Key{Kind: replica.KindFeature, Name: "feature"}] = object{version: 1}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.agents = append(g.agents, a)
	return a
}

func (g *group) agent(id string) *agent {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.agents[slices.IndexFunc(g.agents, func(a *agent) bool { return a.id == id })]
}

func (a *agent) cluster() replica.Key { return replica.Key{Kind: replica.KindCluster, Name: a.id} }

// rule is a name that only this cluster uses, so that a reader can tell whose it is.
func (a *agent) rule(name string) replica.Key {
	return replica.Key{Kind: replica.KindRule, Name: name + "-" + a.id}
}

func (g *group) swap(a, b *agent) {
	g.t.Helper()
	if err := a.trust.Pin(b.id, b.key.Public().(ed25519.PublicKey)); err != nil {
		g.t.Fatal(err)
	}
	if err := b.trust.Pin(a.id, a.key.Public().(ed25519.PublicKey)); err != nil {
		g.t.Fatal(err)
	}
}

// start runs the agent with an empty replica in the given epoch.
func (a *agent) start(epoch uint64) {
	t := a.group.t
	t.Helper()
	a.epoch, a.seen, a.stopped = epoch, &seen{at: map[replica.Change]sight{}}, make(chan error, 1)
	sight := a.seen
	r, err := replica.New(replica.Options{
		Self: a.id, PrivateKey: a.key, Epoch: epoch, Keyring: a.trust,
	})
	if err != nil {
		t.Fatal(err)
	}
	r.Subscribe(func(changes []replica.Change) { a.group.check(r, sight, changes) })
	a.replica = r
	a.mesh, err = mesh.New(mesh.Options{
		Identity: mesh.Identity{ClusterID: a.id, PrivateKey: a.key},
		Trust:    a.trust, State: r, Network: a.group.network.Host(a.id), Listen: ":7946", Origin: replica.Origin,
		Endpoints: func(id string) []string { return []string{id + ":7946"} },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	running := make(chan struct{})
	a.stop = cancel
	go func() {
		err := a.mesh.Run(ctx)
		<-running
		a.stopped <- err
	}()
	a.announce()
	go func() {
		defer close(running)
		a.chores(ctx)
	}()
}

// announce publishes the whole truth and marks it as complete.
func (a *agent) announce() {
	keys := slices.SortedFunc(maps.Keys(a.api), func(x, y replica.Key) int {
		return bytes.Compare(fmt.Append(nil, x), fmt.Append(nil, y))
	})
	for _, key := range keys {
		a.publish(key)
	}
	a.mesh.Broadcast(a.replica.Complete()...)
}

// chores does what an agent does on its own: it opens a higher epoch when it meets its own
// signature above its position.
func (a *agent) chores(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if epoch := a.replica.OwnEpochSeen(); epoch > 0 {
			msgs, err := a.replica.Reopen(epoch + 1)
			if err != nil {
				a.group.t.Errorf("%s: %v", a.id, err)
				return
			}
			a.mesh.Broadcast(msgs...)
		}
	}
}

// collect frees the tombstones of the agent when there are more of them than of anything else.
func (a *agent) collect() {
	if !a.replica.TooManyTombstones(0) {
		return
	}
	a.epoch++
	msgs, err := a.replica.Reopen(a.epoch)
	if err != nil {
		a.group.t.Errorf("%s: %v", a.id, err)
	}
	a.mesh.Broadcast(msgs...)
}

// publish says what the truth is about one key.
func (a *agent) publish(key replica.Key) {
	a.mu.Lock()
	o, ok := a.api[key]
	payload := fmt.Appendf(nil, "%d/%d", o.version, a.deaths[key])
	a.mu.Unlock()
	status := replica.Live
	switch {
	case !ok:
		status, payload = replica.Deleted, nil
	case o.withdrawn:
		status = replica.Withdrawn
	}
	msgs, err := a.replica.Publish(key, status, payload)
	if err != nil {
		a.group.t.Errorf("%s: %v", a.id, err)
		return
	}
	a.mesh.Broadcast(msgs...)
}

// change edits the truth. Once it returns, the change is acknowledged.
func (a *agent) change(key replica.Key, edit func(o *object)) {
	a.mu.Lock()
	o, ok := a.api[key]
	if !ok {
		o.version = 100 * a.deaths[key]
	}
	o.version++
	edit(&o)
	a.api[key] = o
	a.mu.Unlock()
	a.publish(key)
}

func (a *agent) update(key replica.Key)   { a.change(key, func(*object) {}) }
func (a *agent) withdraw(key replica.Key) { a.change(key, func(o *object) { o.withdrawn = true }) }

// forget deletes from the truth without telling anybody, as while the agent is down.
func (a *agent) forget(key replica.Key) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.api, key)
	a.deaths[key]++
}

func (a *agent) remove(key replica.Key) {
	a.forget(key)
	a.publish(key)
}

// kill ends the agent. With crash, nobody hears a goodbye.
func (a *agent) kill(crash bool) {
	a.group.t.Helper()
	if crash {
		a.group.network.Isolate(a.id)
	}
	a.stop()
	if err := <-a.stopped; err != nil {
		a.group.t.Errorf("%s: %v", a.id, err)
	}
}

// check looks at what changed with the eyes of a subscriber.
func (g *group) check(r *replica.Replica, s *seen, changes []replica.Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range changes {
		keys := []replica.Key{c.Key}
		if c.Key == (replica.Key{}) {
			keys = nil
			for known := range s.at {
				if known.Origin == c.Origin {
					keys = append(keys, known.Key)
				}
			}
		}
		for _, key := range keys {
			g.checkKey(r, s, replica.Change{Key: key, Origin: c.Origin})
		}
	}
}

func (g *group) checkKey(r *replica.Replica, s *seen, c replica.Change) {
	last, before := s.at[c]
	origin := g.agent(c.Origin)
	for _, e := range r.Find(c.Key) {
		if e.Origin != c.Origin {
			continue
		}
		var now sight
		if _, err := fmt.Sscanf(string(e.Payload), "%d/%d", &now.version, &now.deaths); err != nil {
			g.t.Errorf("payload of %v: %v", c, err)
		}
		if before && now.version < last.version {
			g.t.Errorf("%v is shown in version %d after %d", c, now.version, last.version)
		}
		s.at[c] = now
		return
	}
	if !before || !r.Absent(c.Key, c.Origin) {
		return
	}
	origin.mu.Lock()
	defer origin.mu.Unlock()
	if origin.deaths[c.Key] <= last.deaths {
		g.t.Errorf("%v is called absent and was not deleted", c)
	}
}

// equal says whether some agents hold the same.
func equal(agents ...*agent) func() bool {
	return func() bool {
		first := agents[0].replica.Digest()
		return !slices.ContainsFunc(agents[1:], func(a *agent) bool { return !bytes.Equal(a.replica.Digest(), first) })
	}
}

// formed says whether some agents see each other alive and hold everything that all of them say.
func formed(agents ...*agent) func() bool {
	same := equal(agents...)
	return func() bool {
		if !same() {
			return false
		}
		for _, a := range agents {
			alive := 0
			for _, m := range a.mesh.Members() {
				if m.State == mesh.Alive {
					alive++
				}
			}
			if alive < len(agents)-1 {
				return false
			}
			for _, b := range agents {
				if !a.replica.Progress(b.id).Complete {
					return false
				}
			}
		}
		return true
	}
}

// describe says what an agent has not got.
func (g *group) describe(a *agent) string {
	out := string(a.id) + ":"
	for _, m := range a.mesh.Members() {
		if m.State != mesh.Alive {
			out += fmt.Sprintf(" %s is %v", m.ClusterID, m.State)
		}
	}
	out += fmt.Sprintf(" of %d members;", len(a.mesh.Members()))
	for _, b := range g.agents {
		if p := a.replica.Progress(b.id); !p.Complete {
			out += fmt.Sprintf(" %s: %+v", b.id, p)
		}
	}
	return out
}

// await polls until the condition holds.
func (g *group) await(within time.Duration, what string, condition func() bool) {
	g.t.Helper()
	start := time.Now()
	for !condition() {
		if time.Since(start) > within {
			for _, a := range g.agents {
				g.t.Log(g.describe(a))
			}
			g.t.Fatalf("not within %v: %s", within, what)
		}
		time.Sleep(50 * time.Millisecond)
	}
	g.t.Logf("%s after %v", what, time.Since(start).Round(10*time.Millisecond))
}

// audit compares what every agent of some holds of every one with the truth.
func (g *group) audit(agents ...*agent) {
	g.t.Helper()
	for _, origin := range agents {
		for _, at := range agents {
			for key, o := range origin.api {
				want := replica.Live
				if o.withdrawn {
					want = replica.Withdrawn
				}
				entries := slices.DeleteFunc(at.replica.Find(key), func(e replica.Entry) bool { return e.Origin != origin.id })
				if len(entries) != 1 || entries[0].Status != want ||
					!bytes.HasPrefix(entries[0].Payload, fmt.Appendf(nil, "%d/", o.version)) {
					g.t.Errorf("%s holds of %s as %s: %+v, want version %d, status %d", at.id, key.Name, origin.id, entries, o.version, want)
				}
			}
			for key := range origin.deaths {
				if _, back := origin.api[key]; !back && !at.replica.Absent(key, origin.id) {
					g.t.Errorf("%s cannot prove that %s is gone", at.id, key.Name)
				}
			}
		}
	}
	if n := len(agents[0].replica.Clones()); n > 0 {
		g.t.Errorf("%d clones", n)
	}
}
