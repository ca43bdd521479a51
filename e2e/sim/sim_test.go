// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"math/rand/v2"
	"testing"
	"time"
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
				a := g.agents[rand.IntN(5)]
				a.update(a.rule("changes"))
				a = g.agents[17+rand.IntN(7)]
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

func ids(agents []*agent) []string {
	ids := make([]string, len(agents))
	for i, a := range agents {
		ids[i] = a.id
	}
	return ids
}
