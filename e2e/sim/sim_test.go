// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/roster-mesh/roster/replica"
)

// TestPartition cuts 50 agents into two sides, changes everything on both, restarts an agent
// of each with nothing but its API server, and joins the sides again.
func TestPartition(t *testing.T) {
	bubble(t, 50, 20*time.Millisecond, func(t *testing.T, g *group) {
		g.await(2*time.Minute, "the group forms", formed(g.agents...))
		g.audit(g.agents...)

		left, right := g.agents[:30], g.agents[30:]
		g.network.Partition(ids(left), ids(right))
		for _, a := range g.agents {
			a.update(a.rule("changes"))
			a.remove(a.rule("goes"))
			a.withdraw(a.rule("retires"))
			a.update(a.rule("new"))
			a.remove(a.rule("returns"))
			a.update(a.rule("returns"))
		}
		for _, side := range [][]*agent{left, right} {
			a := side[len(side)/2]
			a.kill(false)
			a.forget(a.rule("new"))
			a.start(2)
			g.await(5*time.Minute, "a side agrees", formed(side...))
			g.audit(side...)
		}
		if left[0].replica.Absent(right[0].rule("goes"), right[0].id) {
			t.Error("a change crossed the partition")
		}
		time.Sleep(3 * time.Minute) // the sides have given each other up
		left[1].update(left[1].rule("changes"))

		g.network.HealAll()
		g.await(5*time.Minute, "the sides agree", formed(g.agents...))
		g.audit(g.agents...)
	})
}

// TestChurn loses segments and lets agents crash and come back, two of them without knowing
// the epoch that they were in, while others go on changing things.
func TestChurn(t *testing.T) {
	bubble(t, 24, 20*time.Millisecond, func(t *testing.T, g *group) {
		g.network.SetLoss(0.02)
		g.await(2*time.Minute, "the group forms", formed(g.agents...))
		for round := range 4 {
			down := g.agents[5+round*3 : 8+round*3]
			for _, a := range down {
				a.kill(true)
				a.forget(a.rule("goes"))
			}
			for range 40 {
				a := g.agents[g.random.IntN(5)]
				a.update(a.rule("changes"))
				a = g.agents[17+g.random.IntN(7)]
				a.remove(a.rule("returns"))
				time.Sleep(100 * time.Millisecond)
				a.update(a.rule("returns"))
			}
			g.network.HealAll()
			for i, a := range down {
				epoch := a.epoch + 1
				if round%2 == 1 && i == 0 {
					epoch = 1 // its Secret is lost as well
				}
				a.start(epoch)
			}
			time.Sleep(time.Second)
		}
		g.await(5*time.Minute, "the group agrees", formed(g.agents...))
		g.audit(g.agents...)
	})
}

// TestStorm has everything go wrong at once: jitter, loss, thin links, ways that are cut in one
// direction, lost disks, crashes, and members that come and go, while everybody changes things.
func TestStorm(t *testing.T) {
	bubble(t, 12, 20*time.Millisecond, func(t *testing.T, g *group) {
		g.network.SetJitter(200 * time.Millisecond)
		g.network.SetLoss(0.03)
		g.network.SetBandwidth(128 << 10)
		g.await(2*time.Minute, "the group forms", formed(g.agents...))
		for round := range 5 {
			for range 10 {
				g.network.CutOneWay(g.any().id, g.any().id)
			}
			down := g.agents[1+2*round : 3+2*round]
			for i, a := range down {
				a.kill(i == 0)
				a.forget(a.rule("goes"))
			}
			up := slices.DeleteFunc(slices.Clone(g.agents), func(a *agent) bool { return slices.Contains(down, a) })
			for range 30 {
				a := up[g.random.IntN(len(up))]
				a.update(a.rule("changes"))
				a = up[g.random.IntN(len(up))]
				a.remove(a.rule("returns"))
				time.Sleep(50 * time.Millisecond)
				a.update(a.rule("returns"))
				a.withdraw(a.rule("retires"))
			}
			g.network.HealAll()
			for _, a := range down {
				a.start(a.epoch + 1) // with an empty replica
			}
			if round < 3 {
				friend := g.any() // and not itself
				a := g.add(fmt.Sprintf("newcomer-%d", round))
				g.swap(friend, a)
				a.start(1)
			}
			time.Sleep(time.Second)
		}
		g.await(5*time.Minute, "the group agrees", formed(g.agents...))
		g.audit(g.agents...)
		for _, a := range g.agents {
			if s := a.replica.Stats(); s.Bytes > 100<<10 || s.Refused > 0 {
				t.Errorf("%s holds %+v of %d agents", a.id, s, len(g.agents))
			}
		}
	})
}

// TestAway cuts a member off, as one that is stopped in its tracks, until its peers have collected every tombstone of
// what it still holds; one of them has lost its disk since. Hours pass on all clocks. When it is back nothing is
// resurrected, what lives stays, and what it did itself meanwhile counts.
func TestAway(t *testing.T) {
	bubble(t, 5, 20*time.Millisecond, func(t *testing.T, g *group) {
		g.await(2*time.Minute, "the group forms", formed(g.agents...))
		away, others := g.agents[2], slices.Delete(slices.Clone(g.agents), 2, 3)
		g.network.Isolate(away.id)
		for _, a := range g.agents {
			a.remove(a.rule("goes"))
			a.withdraw(a.rule("retires"))
			a.remove(a.rule("returns"))
			a.update(a.rule("changes"))
		}
		for hour := range 6 {
			time.Sleep(time.Hour)
			for _, a := range others {
				name := a.rule(fmt.Sprint("short-lived-", hour))
				a.update(name)
				a.remove(name)
				a.collect()
			}
			if hour == 3 {
				others[1].kill(true)
				others[1].start(others[1].epoch + 1)
				g.network.HealAll()
				g.network.Isolate(away.id)
			}
		}
		for _, a := range others {
			a.update(a.rule("returns"))
		}
		g.await(time.Minute, "the others agree", formed(others...))
		for _, a := range others {
			if n := a.replica.Stats().Tombstones; n > len(others)*8 {
				t.Errorf("%s holds %d tombstones", a.id, n)
			}
		}
		g.network.HealAll()
		g.await(5*time.Minute, "all agree", formed(g.agents...))
		g.audit(g.agents...)
	})
}

// TestBurst changes 10,000 objects at one origin, and looks what they cost.
func TestBurst(t *testing.T) {
	const objects = 10_000
	bubble(t, 8, 20*time.Millisecond, func(t *testing.T, g *group) {
		g.network.SetBandwidth(10 << 20)
		g.await(2*time.Minute, "the group forms", formed(g.agents...))
		time.Sleep(10 * time.Second)
		before := g.network.Sent()
		a := g.agents[3]
		for i := range objects {
			a.update(a.rule(fmt.Sprintf("burst-%05d", i)))
		}
		g.await(time.Minute, "everybody has the burst", equal(g.agents...))
		held := int64(a.replica.Stats().Bytes)
		sent := (g.network.Sent() - before) / int64(len(g.agents)-1)
		t.Logf("%d KiB of entries, %d KiB sent for each agent", held>>10, sent>>10)
		if sent > 3*held {
			t.Errorf("%d bytes were sent for each agent, of %d that it lacked", sent, held)
		}
		g.audit(g.agents...)
	})
}

// TestNoisyOrigin has one member change things as fast as it can, for a while: others' changes arrive as
// ever, what everybody sends is bounded, and in the end all agree.
func TestNoisyOrigin(t *testing.T) {
	const seconds, each = 10, 300
	bubble(t, 16, 20*time.Millisecond, func(t *testing.T, g *group) {
		g.network.SetBandwidth(1 << 20)
		g.await(2*time.Minute, "the group forms", formed(g.agents...))
		time.Sleep(10 * time.Second)
		before := g.network.Sent()
		noisy, quiet := g.agents[2], g.agents[9]
		stop := make(chan struct{})
		go func() {
			defer close(stop)
			for i := range seconds * each {
				noisy.update(noisy.rule(fmt.Sprint("noise-", i%20)))
				time.Sleep(time.Second / each)
			}
		}()
		var slowest time.Duration
		for range seconds - 1 {
			time.Sleep(time.Second)
			start := time.Now()
			quiet.update(quiet.rule("changes"))
			version := quiet.api[quiet.rule("changes")].version
			for !g.shows(quiet.rule("changes"), version) {
				time.Sleep(5 * time.Millisecond)
			}
			slowest = max(slowest, time.Since(start))
		}
		<-stop
		rate := (g.network.Sent() - before) / int64(len(g.agents)) / seconds
		t.Logf("a change of another took %v at most, while each agent sent %d KiB a second", slowest, rate>>10)
		if slowest > 300*time.Millisecond {
			t.Errorf("a quiet member's change took %v", slowest)
		}
		if rate > 150<<10 {
			t.Errorf("each agent sent %d bytes a second", rate)
		}
		g.await(time.Minute, "the group agrees", formed(g.agents...))
		g.audit(g.agents...)
	})
}

func (g *group) any() *agent { return g.agents[g.random.IntN(len(g.agents))] }

// shows says whether everybody has a key in a version or a later one.
func (g *group) shows(key replica.Key, version int) bool {
	return !slices.ContainsFunc(g.agents, func(a *agent) bool {
		entries := a.replica.Find(key)
		var at, deaths int
		if len(entries) == 0 {
			return true
		}
		_, err := fmt.Sscanf(string(entries[0].Payload), "%d/%d", &at, &deaths)
		return err != nil || at < version
	})
}

func ids(agents []*agent) []string {
	ids := make([]string, len(agents))
	for i, a := range agents {
		ids[i] = a.id
	}
	return ids
}
