// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package admissions_test

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/roster-mesh/roster/agent/admissions"
	"github.com/roster-mesh/roster/agent/agenttest"
	"github.com/roster-mesh/roster/mesh/trust"
)

// remove has a member remove another.
func (m *member) remove(ids ...string) {
	t := m.g.t
	t.Helper()
	for _, id := range ids {
		key, ok := m.trust.Key(id)
		if !ok {
			t.Fatalf("%s is not pinned in %s", id, m.id)
		}
		r, err := m.replica.SignRemoval(id, key, id, m.id, 0)
		if err == nil {
			_, _, err = m.replica.Merge(r.Message(), "")
		}
		if err != nil {
			t.Fatal(err)
		}
		m.mesh.Broadcast(r.Message())
	}
}

// TestBranchOutlivesItsAuthors: m1 admits w, which admits v. Then it has w leave, or removes it: v is in its branch still, in every
// member, and in that of nobody else.
func TestBranchOutlivesItsAuthors(t *testing.T) {
	for _, left := range []bool{true, false} {
		bubble(t, func(t *testing.T, g *group) {
			g.hub(4, false)
			bad := g.members[2]
			w, v := g.add("w", false), g.add("v", false)
			g.swap(bad, w)
			g.swap(w, v)
			g.whole(5*time.Second, "with the inventions")
			if left {
				g.leave(w)
			} else {
				bad.remove("w")
				time.Sleep(5 * time.Second)
				w.end()
			}
			for _, m := range g.members[:4] {
				if got := m.admissions.Branch(bad.id); m != bad && !slices.Equal(got, []string{"v"}) {
					t.Errorf("left %t: in %s the branch is %v", left, m.id, got)
				}
				if got := m.admissions.Branch("hub"); m != bad && m.id != "hub" && slices.Contains(got, "v") != slices.Contains(got, bad.id) {
					t.Errorf("left %t: in %s the branch of the hub is %v", left, m.id, got)
				}
			}
		})
	}
}

// TestBadMemberTakesOverNobody: m1 publishes admissions of all others, and removes the hub, which had admitted them. Who then removes
// m1 with all that it admitted removes no other.
func TestBadMemberTakesOverNobody(t *testing.T) {
	bubble(t, func(t *testing.T, g *group) {
		hub := g.hub(5, false)
		bad := g.members[2]
		for _, m := range g.members {
			if m != bad {
				bad.trust.Keep([]string{m.id})
				bad.publishAdmission(m.id)
			}
		}
		time.Sleep(5 * time.Second)
		bad.remove(hub.id)
		time.Sleep(5 * time.Second)
		hub.end()
		for _, m := range g.members[1:] {
			if got := m.admissions.Branch(bad.id); m != bad && len(got) > 0 {
				t.Errorf("in %s the branch is %v", m.id, got)
			}
		}
		g.members[1].remove(bad.id)
		time.Sleep(5 * time.Second)
		bad.end()
		g.whole(soon, "without the bad one")
	})
}

// TestBranchesOutliveWhatABadMemberEnds: whomever a bad member admits, and whatever members it has leave, or removes, what is left
// of its branch is its branch, and nobody else comes into it.
func TestBranchesOutliveWhatABadMemberEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := trust.New(trust.Pin{ClusterID: "me", PublicKey: agenttest.PublicKey("me")}, trust.Options{})
		a := admissions.New("me", table, nil, slog.New(slog.DiscardHandler))
		admit := func(author, id, via string) {
			table.Admit(trust.Admission{Author: author, ClusterID: id, PublicKey: agenttest.PublicKey(id), Via: via})
		}
		add := func(author, id, via string) {
			err := table.Pin(id, agenttest.PublicKey(id))
			if author != "me" {
				table.Forget(id)
				admit(author, id, via)
				err = table.Introduce(id, agenttest.PublicKey(id), author)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		honest := []string{"me"}
		for _, id := range []string{"a", "b", "c", "d"} {
			add(rapid.SampledFrom(honest).Draw(t, "by"), id, "")
			honest = append(honest, id)
		}
		add(rapid.SampledFrom(honest).Draw(t, "who admitted bad"), "bad", "")
		bad, vias := []string{"bad"}, rapid.Bool().Draw(t, "vias")
		for i := range rapid.IntRange(0, 4).Draw(t, "invented") {
			id, via := fmt.Sprintf("x%d", i), ""
			if vias {
				via = rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "via")
			}
			add(rapid.SampledFrom(bad).Draw(t, "author"), id, via)
			bad = append(bad, id)
		}
		for _, author := range bad {
			admit(author, rapid.SampledFrom(honest[1:]).Draw(t, "takes over"), "")
		}
		for _, id := range honest[1:] { // circles, as swaps make them
			admit(id, rapid.SampledFrom(honest[1:]).Draw(t, "back"), "")
		}
		want := a.Branch("bad")
		for range rapid.IntRange(0, 5).Draw(t, "ends") {
			id := rapid.SampledFrom(append(slices.Clone(honest[1:]), bad[1:]...)).Draw(t, "ended")
			table.Remove(id, agenttest.PublicKey(id), nil, rapid.Bool().Draw(t, "left"))
			for _, subject := range table.AdmittedBy(id) {
				table.Withdraw(id, subject)
			}
			want = slices.DeleteFunc(want, func(in string) bool { return in == id })
			got := a.Branch("bad")
			more := slices.ContainsFunc(got, func(in string) bool { return !slices.Contains(want, in) })
			if more || !vias && !slices.Equal(got, want) {
				t.Fatalf("after the end of %s the branch is %v, want %v", id, got, want)
			}
		}
	})
}
