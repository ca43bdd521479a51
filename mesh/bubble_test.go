// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/roster-mesh/roster/mesh/meshtest"
	"github.com/roster-mesh/roster/mesh/pace"
)

// bubble runs a test in virtual time on an in-memory network.
func bubble(t *testing.T, latency time.Duration, f func(t *testing.T, g *group)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, meshtest.NewNetwork(latency))
		defer time.Sleep(time.Minute) // probes that were under way end
		defer g.end()                 // also after a failure, which would be hidden by what goes on
		f(t, g)
	})
}

func TestFiftyMembers(t *testing.T) {
	n := 50
	if testing.Short() { // with the race detector fifty take two minutes
		n = 20
	}
	bubble(t, 20*time.Millisecond, func(t *testing.T, g *group) {
		var members []*member
		for _, name := range names(n) {
			members = append(members, g.add(name))
		}
		for _, m := range members[1:] {
			g.swap(members[0], m)
		}
		t.Logf("formed after %v", await(t, time.Minute, "all know each other", formed(members...)))
		t.Logf("converged after %v", await(t, time.Minute, "states converge", equal(members...)))
		for _, result := range []string{"fresh", "empty", "failed"} {
			pulls := 0.0
			for _, m := range members {
				pulls += testutil.ToFloat64(m.metrics.pulls.WithLabelValues(result))
			}
			t.Logf("%v %s pulls", pulls, result)
		}
		time.Sleep(10 * time.Second)
		before := g.network.Sent()
		m := members[7]
		m.Broadcast(m.state.publish([]byte("news")))
		t.Logf("update everywhere after %v", await(t, 10*time.Second, "an update is everywhere", equal(members...)))
		time.Sleep(2 * time.Second)
		t.Logf("%d bytes within 2 s", g.network.Sent()-before)
		before = g.network.Sent()
		time.Sleep(time.Minute)
		t.Logf("%d bytes a minute per member at rest", (g.network.Sent()-before)/int64(n))
	})
}

// A swap is two writes, and one is taken up before the other: the member that tried too early need not try again.
func TestTwoHalvesOfASwap(t *testing.T) {
	bubble(t, 5*time.Millisecond, func(t *testing.T, g *group) {
		a, b := g.add("a"), g.add("b")
		time.Sleep(time.Minute)
		if err := a.trust.Pin(b.name, b.state.identity.PublicKey()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond)
		if err := b.trust.Pin(a.name, a.state.identity.PublicKey()); err != nil {
			t.Fatal(err)
		}
		await(t, 200*time.Millisecond, "both are met", formed(a, b))
	})
}

func TestPartitionAndHeal(t *testing.T) {
	bubble(t, 10*time.Millisecond, func(t *testing.T, g *group) {
		var members []*member
		for _, name := range names(6) {
			members = append(members, g.add(name))
		}
		for _, m := range members[1:] {
			g.swap(members[0], m)
		}
		await(t, time.Minute, "group forms", formed(members...))
		left, right := members[:3], members[3:]
		g.network.Partition(names(6)[:3], names(6)[3:])
		for _, m := range members {
			m.Broadcast(m.state.publish([]byte("while apart")))
		}
		await(t, time.Minute, "the left side converges", equal(left...))
		await(t, time.Minute, "the right side converges", equal(right...))
		await(t, 5*time.Minute, "the sides take each other for failed", func() bool {
			for _, l := range left {
				for _, r := range right {
					if !l.sees(Failed, r) || !r.sees(Failed, l) {
						return false
					}
				}
			}
			return true
		})
		if !formed(left...)() || !formed(right...)() {
			t.Error("a side lost sight of itself")
		}
		time.Sleep(10 * time.Minute) // memberlist has forgotten the other side by now
		g.network.HealAll()
		t.Logf("formed again after %v", await(t, 2*pace.MaxBackoff, "the sides find each other again", formed(members...)))
		t.Logf("converged after %v", await(t, 10*time.Second, "what was said while apart is everywhere", equal(members...)))
	})
}

func TestShortCutIsNoFailure(t *testing.T) {
	bubble(t, 10*time.Millisecond, func(t *testing.T, g *group) {
		a, b, c := g.add("a"), g.add("b"), g.add("c")
		g.swap(a, b)
		g.swap(b, c)
		await(t, time.Minute, "group forms", formed(a, b, c))
		// a and c are cut from each other for good, b sees both.
		g.network.Cut("a", "c")
		time.Sleep(10 * time.Minute)
		if !formed(a, b, c)() {
			t.Errorf("members: a sees %v, c sees %v", a.Members(), c.Members())
		}
		a.Broadcast(a.state.publish([]byte("past the cut")))
		await(t, 10*time.Second, "a message gets around the cut", equal(a, b, c))
		// A short outage is no failure.
		g.network.Isolate("c")
		time.Sleep(15 * time.Second)
		g.network.HealAll()
		time.Sleep(time.Minute)
		for _, m := range []*member{a, b} {
			m.mu.Lock()
			for _, change := range m.changes {
				if change.State == Failed {
					t.Errorf("%s took %s for failed", m.name, change.ClusterID)
				}
			}
			m.mu.Unlock()
		}
	})
}

func TestFailureAndReturn(t *testing.T) {
	bubble(t, 10*time.Millisecond, func(t *testing.T, g *group) {
		var members []*member
		for _, name := range names(5) {
			members = append(members, g.add(name))
		}
		for _, m := range members[1:] {
			g.swap(members[0], m)
		}
		await(t, time.Minute, "group forms", formed(members...))
		dead, rest := members[4], members[:4]
		g.network.Isolate(dead.name) // so that nobody hears it leave
		g.kill(dead)
		t.Logf("suspected after %v", await(t, time.Minute, "the dead member is suspected", func() bool { return rest[1].sees(Suspect, dead) }))
		t.Logf("failed after %v", await(t, 2*time.Minute, "the dead member has failed everywhere", func() bool {
			for _, m := range rest {
				if !m.sees(Failed, dead) {
					return false
				}
			}
			return true
		}))
		rest[0].mu.Lock()
		var states []MemberState
		for _, change := range rest[0].changes {
			if change.ClusterID == dead.name {
				states = append(states, change.State)
			}
		}
		rest[0].mu.Unlock()
		if want := []MemberState{Alive, Suspect, Failed}; !slices.Equal(states, want) {
			t.Errorf("changes %v, want %v", states, want)
		}
		rest[0].Broadcast(rest[0].state.publish([]byte("while it was away")))
		g.network.HealAll()
		back := g.add(dead.name)
		g.swap(rest[2], back) // any one member will do
		t.Logf("back after %v", await(t, 2*pace.MaxBackoff, "the member is back", formed(append(rest, back)...)))
		await(t, 10*time.Second, "it gets what it missed", equal(append(rest, back)...))
		g.kill(back)
		t.Logf("left after %v", await(t, 10*time.Second, "its goodbye is heard", func() bool {
			for _, m := range rest {
				if !m.sees(Left, back) {
					return false
				}
			}
			return true
		}))
	})
}

func TestLargeAndManyMessages(t *testing.T) {
	bubble(t, 20*time.Millisecond, func(t *testing.T, g *group) {
		var members []*member
		for _, name := range names(10) {
			members = append(members, g.add(name))
		}
		for _, m := range members[1:] {
			g.swap(members[0], m)
		}
		await(t, time.Minute, "group forms", formed(members...))
		await(t, time.Minute, "states converge", equal(members...))
		m := members[3]
		m.Broadcast(m.state.publish(make([]byte, 500<<10)))
		t.Logf("500 KiB everywhere after %v", await(t, 10*time.Second, "a large message is everywhere", equal(members...)))
		var msgs [][]byte
		for range 1000 {
			msgs = append(msgs, m.state.publish([]byte("one of many")))
		}
		m.Broadcast(msgs...)
		t.Logf("1000 at once everywhere after %v", await(t, 10*time.Second, "many messages are everywhere", equal(members...)))
		for range 800 { // faster than the queues take
			m.Broadcast(m.state.publish(make([]byte, 2000)))
		}
		t.Logf("800 one by one everywhere after %v", await(t, 10*time.Second, "a flood is everywhere", equal(members...)))
	})
}

func TestLoss(t *testing.T) {
	bubble(t, 40*time.Millisecond, func(t *testing.T, g *group) {
		g.network.SetLoss(0.05)
		var members []*member
		for _, name := range names(8) {
			members = append(members, g.add(name))
		}
		for _, m := range members[1:] {
			g.swap(members[0], m)
		}
		await(t, time.Minute, "group forms", formed(members...))
		for i := range 50 {
			m := members[i%len(members)]
			m.Broadcast(m.state.publish([]byte("through the rain")))
			time.Sleep(50 * time.Millisecond)
		}
		t.Logf("converged after %v", await(t, time.Minute, "states converge", equal(members...)))
		time.Sleep(10 * time.Minute)
		if !formed(members...)() {
			t.Error("loss alone made a member fail")
		}
	})
}

// TestRefusedPeerDoesNotHammer: a has pinned b, b has not pinned a.
func TestRefusedPeerDoesNotHammer(t *testing.T) {
	bubble(t, 10*time.Millisecond, func(t *testing.T, g *group) {
		var out syncBuffer
		a := g.add("a", func(o *Options) { o.Log = textLogger(&out) })
		b := g.add("b")
		if err := a.trust.Pin("b", b.state.identity.PublicKey()); err != nil {
			t.Fatal(err)
		}
		for range 600 {
			a.transport.packets.send("b", frameMessage, []byte("hello?"))
			time.Sleep(time.Second)
		}
		if n := b.dropped(dropUnpinned); n < 20 || n > 200 {
			t.Errorf("%d attempts in ten minutes", n)
		}
		if n := strings.Count(out.String(), "\n"); n != 1 {
			t.Errorf("%d lines logged:\n%s", n, out.String())
		}
		if err := b.trust.Pin("a", a.state.identity.PublicKey()); err != nil {
			t.Fatal(err)
		}
		t.Logf("met after %v", await(t, pace.MaxBackoff, "they meet once b has pinned a", formed(a, b)))
	})
}

// TestOneConnectionPerPair: members that dial each other at the same moment
// agree on one connection and close the other.
func TestOneConnectionPerPair(t *testing.T) {
	bubble(t, 50*time.Millisecond, func(t *testing.T, g *group) {
		a, b := g.add("a"), g.add("b")
		g.swap(a, b)
		a.transport.packets.ensure("b")
		b.transport.packets.ensure("a")
		await(t, time.Minute, "they meet", formed(a, b))
		time.Sleep(2 * readTimeout)
		var current []*packetConn
		for _, l := range []*sendQueue{a.transport.packets.queue("b"), b.transport.packets.queue("a")} {
			l.mu.Lock()
			if len(l.conns) != 1 {
				t.Errorf("%d connections to %s", len(l.conns), l.id)
			}
			current = append(current, l.current)
			l.mu.Unlock()
		}
		if current[0].dialled == current[1].dialled {
			t.Error("they write to different connections")
		}
		// Only one way: what b hears from a is lost, so b gives up after a while
		// and they start over once the way is free.
		g.network.CutOneWay("a", "b")
		a.Broadcast(a.state.publish([]byte("into the void")))
		time.Sleep(2 * time.Minute)
		g.network.HealAll()
		await(t, pace.MaxBackoff, "they are equal again", equal(a, b))
		await(t, pace.MaxBackoff, "they see each other again", formed(a, b))
	})
}
