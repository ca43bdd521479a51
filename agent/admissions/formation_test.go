// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package admissions_test

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/roster-mesh/roster/agent/admissions"
	"github.com/roster-mesh/roster/agent/agenttest"
	"github.com/roster-mesh/roster/agent/payload"
	"github.com/roster-mesh/roster/mesh/trust"
	"github.com/roster-mesh/roster/replica"
)

// TestFormation: everybody pins everybody, whoever swaps with whom, and a newcomer is pinned by all within a second.
func TestFormation(t *testing.T) {
	const n = 6
	for name, swaps := range map[string]func(g *group, i int) []int{
		"hub":   func(*group, int) []int { return []int{0} },
		"chain": func(_ *group, i int) []int { return []int{i - 1} },
		"full mesh": func(_ *group, i int) (all []int) {
			for j := range i {
				all = append(all, j)
			}
			return all
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(_ *testing.T, g *group) {
				for i := range n {
					m := g.add(fmt.Sprintf("m%d", (i*5)%n), false) // not in the order of their names
					if i == 0 {
						continue
					}
					for _, with := range swaps(g, i) {
						g.swap(g.members[with], m)
					}
					g.whole(soon+time.Second, m.id)
				}
			})
		})
		t.Run(name+" at once", func(t *testing.T) {
			bubble(t, func(_ *testing.T, g *group) {
				for i := range n {
					g.add(fmt.Sprintf("m%d", (i*5)%n), false)
				}
				for i := 1; i < n; i++ {
					for _, with := range swaps(g, i) {
						g.swap(g.members[with], g.members[i])
					}
				}
				g.whole(10*time.Second, name)
			})
		})
	}
}

// TestTwoSwapsAtOnce: two members admit one newcomer each at the same time.
func TestTwoSwapsAtOnce(t *testing.T) {
	bubble(t, func(_ *testing.T, g *group) {
		g.hub(5, false)
		a, b := g.add("a-new", false), g.add("z-new", false)
		g.swap(g.members[1], a)
		g.swap(g.members[2], b)
		g.whole(2*soon, "two newcomers")
	})
}

// TestSwapPartnerDies: who has swapped with a newcomer dies as soon as one other member knows of that.
func TestSwapPartnerDies(t *testing.T) {
	for _, id := range []string{"a-new", "z-new"} {
		t.Run(id, func(t *testing.T) {
			bubble(t, func(_ *testing.T, g *group) {
				hub := g.hub(5, false)
				for _, m := range g.members[2:] {
					g.network.Cut(hub.id, m.id)
				}
				n := g.add(id, false)
				g.swap(hub, n)
				for range 500 {
					if g.members[1].trust.IsPeer(n.id) {
						break
					}
					time.Sleep(10 * time.Millisecond)
				}
				hub.end()
				g.whole(soon, "after the death of the hub")
			})
		})
	}
}

// invented is a cluster that somebody made up: its Cluster entry, and what others say of it.
func invented(t *testing.T, id string) (key ed25519.PrivateKey, entry []byte) {
	t.Helper()
	key = agenttest.Key("of " + id)
	msgs, err := agenttest.Signer(t, id, key).Publish(payload.ClusterKey(id), replica.Live, []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	return key, msgs[0]
}

// TestForwarderVouchesForNothing: a member that admitted nobody new sends a Cluster entry, and nobody pins that.
func TestForwarderVouchesForNothing(t *testing.T) {
	bubble(t, func(t *testing.T, g *group) {
		g.hub(4, false)
		_, entry := invented(t, "invented")
		for _, m := range g.members[1:] {
			if err := g.members[0].mesh.Merge(m.id, entry); !errors.Is(err, trust.ErrNotAdmitted) {
				t.Errorf("from %s: %v", m.id, err)
			}
		}
		time.Sleep(10 * time.Second)
		for _, m := range g.members {
			if m.trust.IsPeer("invented") {
				t.Errorf("%s has pinned it", m.id)
			}
		}
	})
}

// TestInventionsEndWithTheirAuthor: m1 admits a cluster that there is not, which admits another one. All pin them. A person in m2
// removes m1 with all that it admitted: nobody has them any more, and they do not come back.
func TestInventionsEndWithTheirAuthor(t *testing.T) {
	bubble(t, func(t *testing.T, g *group) {
		g.hub(5, false)
		bad, remover := g.members[2], g.members[3]
		first, second := g.add("first", false), g.add("second", false)
		g.swap(bad, first)
		g.swap(first, second)
		g.whole(5*time.Second, "with the inventions")
		branch := remover.admissions.Branch(bad.id)
		if !slices.Equal(branch, []string{"first", "second"}) {
			t.Fatalf("the branch is %v", branch)
		}
		for _, id := range append(branch, bad.id) {
			key, _ := remover.trust.Key(id)
			r, err := remover.replica.SignRemoval(id, key, id, remover.id, 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := remover.replica.Merge(r.Message(), ""); err != nil {
				t.Fatal(err)
			}
			remover.mesh.Broadcast(r.Message())
		}
		third := g.add("third", false)
		g.swap(second, third)
		time.Sleep(10 * time.Second)
		for _, m := range g.members[:5] {
			for _, id := range []string{"first", "second", "third", bad.id} {
				if m != bad && m.trust.IsPeer(id) {
					t.Errorf("%s is a member in %s", id, m.id)
				}
			}
		}
	})
}

// TestUpgrade: a hub group is upgraded one by one, in any order, and nobody is lost; newcomers of both versions come in between.
// Then the hub leaves, or is removed by one that keeps whom it had admitted, and who comes after that learns of all. So it is where the
// hub was gone before.
func TestUpgrade(t *testing.T) {
	leaves := func(g *group, hub *member) { g.leave(hub) }
	removed := func(g *group, hub *member) { g.remove(g.members[2], hub) }
	for name, c := range map[string]struct {
		order []int
		end   func(g *group, hub *member)
	}{
		"hub first": {[]int{0, 1, 2, 3, 4}, leaves}, "hub last": {[]int{4, 2, 1, 3, 0}, leaves}, "hub gone": {[]int{2, 4, 1, 3}, leaves},
		"hub first, and removed": {[]int{0, 1, 2, 3, 4}, removed}, "hub last, and removed": {[]int{4, 2, 1, 3, 0}, removed}, "hub removed before": {[]int{2, 4, 1, 3}, removed},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(_ *testing.T, g *group) {
				hub := g.hub(5, true)
				if len(c.order) < 5 {
					c.end(g, hub)
				}
				for i, at := range c.order {
					g.members[at].upgrade()
					g.whole(30*time.Second, "after "+g.members[at].id)
					if i == 1 {
						for _, earlier := range []bool{false, true} {
							n := g.add(fmt.Sprintf("while-%t", earlier), earlier)
							g.swap(g.members[at], n)
							g.whole(30*time.Second, n.id)
						}
					}
				}
				g.members[len(g.members)-1].upgrade()
				g.whole(30*time.Second, "all are upgraded")
				if hub.stop != nil {
					c.end(g, hub)
				}
				n := g.add("after", false)
				g.swap(g.members[3], n)
				g.whole(2*soon, "a newcomer")
			})
		})
	}
}

// TestKeptAreAnsweredFor: m0 removes the hub and keeps whom that one had admitted, so it answers for them, and a newcomer learns
// of all, from whichever member.
func TestKeptAreAnsweredFor(t *testing.T) {
	bubble(t, func(t *testing.T, g *group) {
		hub := g.hub(5, false)
		remover := g.members[1]
		g.remove(remover, hub)
		if got := remover.admissions.Subjects(); !slices.Equal(got, []string{"m1", "m2", "m3"}) {
			t.Errorf("it answers for %v", got)
		}
		for _, m := range g.members[2:] {
			if got := m.admissions.AdmittedBy("m1"); m.id != "m1" && !slices.Equal(got, []string{m.id, "m0"}) {
				t.Errorf("in %s, m1 is admitted by %v", m.id, got)
			}
		}
		n := g.add("after", false)
		g.swap(g.members[3], n)
		g.whole(2*soon, "a newcomer")
	})
}

// TestAdmissionsThatDoNotCount: one that its author took back, in whatever way, and one that says what this version does not know,
// pin nobody who comes later; and that is so after a restart.
func TestAdmissionsThatDoNotCount(t *testing.T) {
	author, key := agenttest.Signer(t, "author", agenttest.Key("author")), payload.AdmissionKey("invented")
	invented, entry := invented(t, "invented")
	good, err := payload.EncodeAdmission(trust.Admission{PublicKey: invented.Public().(ed25519.PublicKey)})
	if err != nil {
		t.Fatal(err)
	}
	table := trust.New(trust.Pin{ClusterID: "self", PublicKey: agenttest.PublicKey("self")}, trust.Options{})
	if err := table.Pin("author", agenttest.PublicKey("author")); err != nil {
		t.Fatal(err)
	}
	r, err := replica.New(replica.Options{Self: "self", PrivateKey: agenttest.Key("self"), Epoch: 1, Keyring: table})
	if err != nil {
		t.Fatal(err)
	}
	a := admissions.New("self", table, r, slog.New(slog.DiscardHandler))
	r.Subscribe(a.Changed)
	say := func(key replica.Key, status replica.Status, data []byte) {
		t.Helper()
		msgs, err := author.Publish(key, status, data)
		if err != nil {
			t.Fatal(err)
		}
		for _, msg := range msgs {
			if _, _, err := r.Merge(msg, "author"); err != nil {
				t.Fatal(err)
			}
		}
	}
	say(payload.AdmissionKey("self"), replica.Live, good) // it signs admissions
	for name, c := range map[string]struct {
		status replica.Status
		data   []byte
	}{
		"deleted": {replica.Deleted, nil}, "withdrawn": {replica.Withdrawn, nil}, "withdrawn with all that it said": {replica.Withdrawn, good},
		"of an unknown role": {replica.Live, []byte(`{"role":"viewer"` + "," + string(good[1:]))}, "not to be read": {replica.Live, []byte("{")},
	} {
		say(key, replica.Live, good)
		if got := table.AdmittedBy("author"); !slices.Equal(got, []string{"invented", "self"}) {
			t.Fatalf("before it is %s, %v are admitted", name, got)
		}
		say(key, c.status, c.data)
		a.Load()
		if _, _, err := r.Merge(entry, "author"); !errors.Is(err, trust.ErrNotAdmitted) {
			t.Errorf("%s: %v", name, err)
		}
	}
	say(key, replica.Live, good)
	if _, _, err := r.Merge(entry, "author"); err != nil {
		t.Error(err)
	}
}
