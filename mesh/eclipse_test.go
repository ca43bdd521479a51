// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// friend is pinned by a swap, all others are introduced.
func friend(id string) bool { return id == "friend" }

// TestIntroducedMembersLeaveRoom: however many members were introduced and take every place there is, one that a swap
// has pinned finds one.
func TestIntroducedMembersLeaveRoom(t *testing.T) {
	invented := names(1000)
	t.Run("pulls", func(t *testing.T) {
		p, now := newPuller(), time.Now()
		p.swapped = friend
		for i, id := range invented {
			p.peerLocked(id).wantLocked(now.Add(time.Duration(i) - time.Hour))
		}
		p.peerLocked("friend").wantLocked(now)
		if ready, _ := p.due(now); len(ready) != maxPulls+1 || !slices.Contains(ready, "friend") {
			t.Errorf("pulls from %v", ready)
		}
	})
	t.Run("pulls of the same", func(t *testing.T) {
		p, now := newPuller(), time.Now()
		p.swapped, p.ours = friend, func() summary { return summary{1} }
		for i, id := range []string{"invented", "another", "friend"} {
			p.peerLocked(id).theirs = summary{2}
			p.peerLocked(id).wantLocked(now.Add(time.Duration(i) - time.Hour))
		}
		if ready, _ := p.due(now); !slices.Equal(ready, []string{"invented", "friend"}) {
			t.Errorf("pulls from %v", ready)
		}
	})
	t.Run("joins", func(t *testing.T) {
		j, now := newJoiner(), time.Now()
		j.introducer = func(id string) (string, bool) { return map[bool]string{false: "somebody"}[friend(id)], true }
		j.present = func() int { return 0 }
		if ready, _ := j.due(slices.Clone(invented), now); len(ready) != maxJoins {
			t.Errorf("joins %v", ready)
		}
		if ready, _ := j.due(append(slices.Clone(invented), "friend"), now.Add(time.Second)); !slices.Equal(ready, []string{"friend"}) {
			t.Errorf("then joins %v", ready)
		}
	})
	t.Run("choices", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ours := summary{1}
			b, out := newTestBroadcaster(func() summary { return ours })
			b.swapped = friend
			b.setNeighbours(invented[:4])
			for _, id := range append(slices.Clone(invented), "friend") {
				b.announced(id, ours)
			}
			if all := b.neighbours(); !slices.Contains(all, "friend") || len(all) > 4+4*maxChoices {
				t.Errorf("neighbours are %v", all)
			}
			clear(out)
			for range 100 * anchorTurns {
				b.announceAll(append(slices.Clone(invented), "friend"))
			}
			told := len(slices.DeleteFunc(out[frameDigest], func(id string) bool { return !friend(id) }))
			if told < 50 || told > 200 {
				t.Errorf("showed the friend %d times what is held", told)
			}
			if slices.Contains(out[frameAnnounce], "friend") {
				t.Error("the friend was told that it was chosen")
			}
		})
	})
}

// silent is the state of a member that takes part in everything and passes nothing on.
type silent struct{ *fakeState }

func (silent) Lacks([]byte) (bool, error)               { return false, nil }
func (silent) Delta([]byte, func([]byte) error) error   { return nil }
func (silent) Merge([]byte, string) (bool, bool, error) { return false, false, nil }

// TestEclipse: two members that were swapped hear of each other's news within minutes, though nearly all that they see
// alive are clusters that somebody invented and that pass nothing on.
func TestEclipse(t *testing.T) {
	t.Run("one can connect", func(t *testing.T) { eclipse(t, true) })
	if !testing.Short() { // with the race detector it takes a minute
		t.Run("both can", func(t *testing.T) { eclipse(t, false) })
	}
}

func eclipse(t *testing.T, oneWay bool) {
	bubble(t, 10*time.Millisecond, func(t *testing.T, g *group) {
		ids, a := names(24), g.add("a")
		var far string // that is next to a on no ring
		for i := 0; far == ""; i++ {
			id := fmt.Sprint("b", i)
			if !slices.Contains(neighbours("a", "", append(ids, id))[:ringCount], id) && !slices.Contains(neighbours(id, "", append(ids, "a"))[:ringCount], "a") {
				far = id
			}
		}
		b := g.add(far)
		g.swap(a, b)
		var invented []*member
		for _, id := range ids {
			m := g.add(id, func(o *Options) { o.State = silent{o.State.(*fakeState)} })
			for _, victim := range []*member{a, b} {
				if err := victim.trust.Introduce(id, m.state.identity.PublicKey(), "liar"); err != nil {
					t.Fatal(err)
				}
			}
			for _, other := range append(invented, a, b) {
				if err := m.trust.Pin(other.name, other.state.identity.PublicKey()); err != nil {
					t.Fatal(err)
				}
				if other != a && other != b {
					if err := other.trust.Pin(id, m.state.identity.PublicKey()); err != nil {
						t.Fatal(err)
					}
				}
			}
			invented = append(invented, m)
		}
		await(t, 5*time.Minute, "a and b see all", func() bool { return a.sees(Alive, append(invented, b)...) && b.sees(Alive, append(invented, a)...) })
		if oneWay { // nobody can connect to a any more, and it to everybody: so nobody can pull from it
			meet(t, a, b)
			g.mu.Lock()
			delete(g.addrs, "a")
			g.mu.Unlock()
		}
		for range 2 {
			time.Sleep(2 * idleClose) // what they had to say when they met is over
			if !oneWay {
				a.Broadcast(a.state.publish([]byte("news")))
			}
			b.Broadcast(b.state.publish([]byte("news")))
			t.Logf("known after %v", meet(t, a, b))
		}
	})
}

// meet is how long it takes until two members hold the same. It looks every second of virtual time, not
// every few milliseconds as await.
func meet(t *testing.T, a, b *member) time.Duration {
	t.Helper()
	began := time.Now()
	for ; !equal(a, b)(); time.Sleep(time.Second) {
		if time.Since(began) > 20*time.Minute {
			t.Fatal("they do not hear of each other")
		}
	}
	return time.Since(began)
}
