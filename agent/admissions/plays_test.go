// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package admissions_test

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/roster-mesh/roster/agent/admissions"
	"github.com/roster-mesh/roster/agent/agenttest"
	"github.com/roster-mesh/roster/mesh/trust"
	"github.com/roster-mesh/roster/replica"
	"github.com/roster-mesh/roster/replica/removalguard"
	"github.com/roster-mesh/roster/replica/shares"
)

// seen is what one member sees of a group in which bad, and what that one invents, sign what they like.
type seen struct {
	t       fatal
	table   *trust.Table
	tree    *admissions.Admissions
	honest  []string
	bad     []string // with those that have left
	charges []*removalguard.Charge
}

type fatal interface {
	Helper()
	Fatal(args ...any)
}

func newSeen(t fatal) *seen {
	table := trust.New(trust.Pin{ClusterID: "me", PublicKey: agenttest.PublicKey("me")}, trust.Options{})
	r, err := replica.New(replica.Options{Self: "me", PrivateKey: agenttest.Key("me"), Epoch: 1, Keyring: table})
	if err != nil {
		t.Fatal(err)
	}
	return &seen{t: t, table: table, tree: admissions.New("me", table, r, slog.New(slog.DiscardHandler))}
}

// admit has a member admit a cluster, which is pinned then, or was.
func (s *seen) admit(author, id string) {
	s.t.Helper()
	key := agenttest.PublicKey(id)
	if author == "me" {
		if err := s.table.Pin(id, key); err != nil {
			s.t.Fatal(err)
		}
		return
	}
	s.table.Admit(trust.Admission{Author: author, ClusterID: id, PublicKey: key})
	if !s.table.IsPeer(id) {
		if err := s.table.Introduce(id, key, author); err != nil {
			s.t.Fatal(err)
		}
	}
}

// end has a member leave, or be removed, with what it signed.
func (s *seen) end(id string, left bool) {
	s.table.Remove(id, agenttest.PublicKey(id), nil, left)
	for _, subject := range s.table.AdmittedBy(id) {
		s.table.Withdraw(id, subject)
	}
	s.tree.Look()
}

// remove says whether a removal takes effect here, which the agents of all members were in contact with.
func (s *seen) remove(author, target string) bool {
	tree := removalguard.NewTree("me", s.tree.Members(), func(string) bool { return true })
	decided := tree.Decide(s.charges, author, target)
	if !decided.Held {
		s.charges = append(s.charges, decided.Charge)
		s.end(target, false)
	}
	return !decided.Held
}

// shares are what the members get of a total, if all want all of it.
func (s *seen) shares() map[string]int {
	s.tree.Look()
	wants := map[string]int{}
	for _, pin := range s.table.Pins() {
		wants[pin.ClusterID] = total
	}
	return shares.Of(total, "me", s.tree.Parent, wants)
}

const total = 1 << 20

// TestWhoeverLeavesItsInventions: a bad member that leaves after it has invented others has those below itself still: they remove few, and
// get little. Nor does it help to have several that admitted one of them leave first.
func TestWhoeverLeavesItsInventions(t *testing.T) {
	s := newSeen(t)
	s.admit("me", "hub")
	for i := range 20 {
		s.admit("hub", fmt.Sprint("c", i))
	}
	s.admit("hub", "bad")
	for i := range 12 {
		s.admit("bad", fmt.Sprint("x", i))
		s.admit(fmt.Sprint("x", i), "y")
	}
	for i := range 40 {
		s.admit("y", fmt.Sprint("z", i))
	}
	had := s.shares()["c0"]
	for i := range 12 {
		s.end(fmt.Sprint("x", i), true)
	}
	s.end("y", true)
	s.end("bad", true)
	if got := s.shares()["c0"]; got < had {
		t.Errorf("an honest one has %d, and had %d", got, had)
	}
	gone := 0
	for i := range 20 {
		if s.remove(fmt.Sprint("z", i), fmt.Sprint("c", i)) {
			gone++
		}
	}
	if most := removalguard.Most(22 + 1); gone != most {
		t.Errorf("%d are removed, want %d", gone, most)
	}
	if got := s.tree.Branch("bad"); len(got) != 40 {
		t.Errorf("%d are in the branch of who has left", len(got))
	}
}

// TestWhateverIsSigned: whomever a bad member admits, honest members and invented ones, which do so too, and whoever of those leaves, no
// more honest members are removed unconfirmed than the bad one could remove alone, and none gets less than where that one has invented
// nobody, and has admitted all those honest members itself.
func TestWhateverIsSigned(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, alone := newSeen(t), newSeen(t)
		for i := range rapid.IntRange(1, 10).Draw(t, "honest") {
			id, by := fmt.Sprint("c", i), rapid.SampledFrom(append([]string{"me"}, s.honest...)).Draw(t, "by")
			s.admit(by, id)
			alone.admit(by, id)
			s.honest = append(s.honest, id)
		}
		by := rapid.SampledFrom(append([]string{"me"}, s.honest...)).Draw(t, "who admitted bad")
		s.admit(by, "bad")
		alone.admit(by, "bad")
		s.bad = []string{"bad"}
		many, removes := rapid.Bool().Draw(t, "many"), rapid.Bool().Draw(t, "removes")
		gone := 0
		for i := range rapid.IntRange(0, 50).Draw(t, "steps") {
			live := slices.DeleteFunc(slices.Clone(s.bad), func(id string) bool { return !s.table.IsPeer(id) })
			if len(live) == 0 {
				break
			}
			author := rapid.SampledFrom(live).Draw(t, "author")
			switch what := rapid.IntRange(0, 9).Draw(t, "what"); {
			case what < 3:
				id := fmt.Sprint("y", i)
				s.admit(author, id)
				for _, other := range live {
					if many && other != author {
						s.admit(other, id)
					}
				}
				s.bad = append(s.bad, id)
			case what < 5:
				if id := rapid.SampledFrom(slices.Concat(s.honest, live)).Draw(t, "adopts"); s.table.IsPeer(id) && id != author {
					s.admit(author, id)
					if slices.Contains(s.honest, id) {
						alone.admit("bad", id)
					}
				}
			case what < 8:
				s.end(author, true)
			default:
				if id := rapid.SampledFrom(s.honest).Draw(t, "target"); removes && s.table.IsPeer(id) && s.remove(author, id) {
					gone++
				}
			}
		}
		if most := removalguard.Most(len(s.honest) + 2); gone > most {
			t.Fatalf("%d of %d are removed, and %d is most", gone, len(s.honest), most)
		}
		got, want := s.shares(), alone.shares()
		for _, id := range s.honest {
			if gone == 0 && got[id] < want[id] {
				t.Fatalf("%s gets %d, and %d beside the bad one alone", id, got[id], want[id])
			}
		}
	})
}
