// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package admissions_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/roster-mesh/roster/agent/removals"
	"github.com/roster-mesh/roster/mesh"
	"github.com/roster-mesh/roster/mesh/trust"
)

// guarded gives a member a guard, which an agent has.
func (m *member) guarded() *removals.Guard {
	return removals.NewGuard(removals.Options{
		ClusterID: m.id, Key: m.pin().PublicKey, Trust: m.trust, Members: m.admissions.Members,
		Met:     func(id string) bool { return m.mesh.Member(id).State != mesh.Unknown },
		Refuses: func(id string) bool { return m.mesh.RemovedBy(id) },
	})
}

// removeAll has a member say to all others that each of them is removed, to each first that it is itself.
func (g *group) removeAll(bad *member, others []*member) {
	g.t.Helper()
	says := map[string][]byte{}
	for _, target := range others {
		r, err := bad.replica.SignRemoval(target.id, target.pin().PublicKey, target.id, bad.id, 0)
		if err != nil {
			g.t.Fatal(err)
		}
		says[target.id] = r.Message()
	}
	for i, at := range others {
		for n := range len(others) {
			_ = at.mesh.Merge(bad.id, says[others[(i+n)%len(others)].id])
		}
	}
}

// peers are the honest members that a member has pinned.
func (m *member) peers(of []*member) (ids []string) {
	for _, other := range of {
		if other != m && m.trust.IsPeer(other.id) {
			ids = append(ids, other.id)
		}
	}
	return ids
}

// TestOneMemberRemovesFew: a member of a hub group removes all others. Each of these loses two members, and not itself, and all hold the
// same statements. One that a person in one of them confirms ends there; then a member removes the bad one, and who has it left does, too.
func TestOneMemberRemovesFew(t *testing.T) {
	bubble(t, func(t *testing.T, g *group) {
		hub := g.hub(7, false)
		bad, others := g.members[3], slices.Concat(g.members[:3], g.members[4:])
		for _, m := range others {
			m.guard = m.guarded()
		}
		g.removeAll(bad, others)
		time.Sleep(30 * time.Second)
		statements := len(others[0].replica.Removals())
		for _, m := range others {
			left, held := m.peers(others), 0
			for _, r := range m.replica.Removals() {
				if r.Standing.Held {
					held++
				}
			}
			if len(left) != len(others)-1-2 || len(m.replica.Removals()) != statements || statements != len(others) || held != statements-2 {
				t.Errorf("%s has %v, and holds %d of %d", m.id, left, held, len(m.replica.Removals()))
			}
			if _, out := m.guard.Held(m.id, m.pin().PublicKey); !out {
				t.Errorf("%s takes itself for removed", m.id)
			}
		}
		view := hub.guard.View(func(id string) string { return id })
		if want := fmt.Sprintf("removals by other members are held, and end nothing (removals: %d; who ordered them: 1)", statements-2); !view.Held || !strings.HasPrefix(view.Message, want) {
			t.Errorf("the hub says %q", view.Message)
		}

		remover := others[2] // m1 has m5 left, and each of the others has one, too
		target := slices.DeleteFunc(remover.peers(others), func(id string) bool { return id == "m5" })[0]
		key, _ := remover.trust.Key(target)
		if got := remover.guard.Confirm([]trust.Name{{ClusterID: target, Fingerprint: trust.Fingerprint(key)}}); len(got) != 1 {
			t.Fatalf("%d are confirmed", len(got))
		}
		for _, r := range remover.guard.Again() {
			remover.replica.Reconsider(r.ClusterID, r.PublicKey)
		}
		if remover.trust.IsPeer(target) {
			t.Errorf("%s is a member in %s still", target, remover.id)
		}
		remover.remove(bad.id)
		time.Sleep(30 * time.Second)
		for _, m := range others {
			if m.trust.IsPeer(bad.id) && (m == remover || m.id == "m5") {
				t.Errorf("%s is a member in %s still", bad.id, m.id)
			}
			if len(m.peers(others)) < len(others)-1-3 {
				t.Errorf("%s has lost others: %v", m.id, m.peers(others))
			}
		}
		if view := remover.guard.View(func(id string) string { return id }); view.Held {
			t.Errorf("%s asks for what nobody who is a member ordered: %s", remover.id, view.Message)
		}
	})
}
