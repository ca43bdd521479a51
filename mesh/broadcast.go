// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/roster-mesh/roster/mesh/pace"
)

const (
	// maxInline is the longest message that is sent to neighbours as it is.
	maxInline = maxFrame - 1
	// bulk is how many messages at once are announced rather than sent: who
	// has just pulled a large delta would send it to neighbours that have it.
	bulk = 64
	// originRate is how many messages a second of one origin are sent on as they
	// come, once it has used up bulk of them. What exceeds it is announced, and
	// pulled with what has superseded it by then.
	originRate = 20
	// relayRate is how many a second of all others are, after half of what a neighbour takes of us at once: it takes the other
	// half, and the rest of mergeRate, for what it pulls.
	relayRate = mergeRate / 4
	// differInterval is left between two announcements to all.
	differInterval = time.Second
	// grace is how long neighbours may differ before one asks: most differences
	// are news that is on its way.
	grace = time.Second
	// choiceLife is how long a member that chose us as its neighbour counts as
	// one of ours: it says so again at every announceInterval.
	choiceLife = 3 * announceInterval
	// maxChoices is how many times the number of our own choices may choose us.
	maxChoices = 4
	// anchorTurns is how many announcements pass, on average, before a member that a swap has pinned is told what we
	// hold, too, where there is none among our choices. It bounds for how long (two minutes) clusters that somebody invented can be all
	// that a member hears of.
	anchorTurns = 24
)

// broadcaster spreads messages that were seen for the first time: at once, to
// the neighbours that we chose and to those that chose us, so that each
// connection carries news both ways. What is too long, too much or got lost on
// the way is announced, and pulled.
//
// Views of who is alive differ for a while, most of all when a group forms, and
// then the choices of neighbours leave holes. So every few seconds members send
// the neighbours that they chose the hash of their contents:
//
//	a ── announce hash(a) ──▶ b    equal: done
//	                          b    waits for news to arrive: equal, done
//	a ◀── differ hash(b) ──── b
//	a ──── digest(a) ───────▶ b    a pulls; its digest shows b what b lacks
//	a ◀─── delta ──────────── b
//	a ◀── digest(b) ───────── b    then b pulls too
type broadcaster struct {
	send     func(peer string, kind byte, payload []byte)
	ours     func() summary
	contents func() []byte           // what ours is the hash of
	origin   func(msg []byte) string // of one whose signature was verified; "" for a removal, which counts for who sent it on
	relay    *pace.Relay
	swapped  func(peer string) bool // a swap has pinned it

	mu            sync.Mutex
	warm          []string             // that we chose; never changed in place
	choosers      map[string]time.Time // members that chose us, and when they last said so
	rechecks      map[string]bool      // members to look at again after the grace
	lastDiffer    time.Time            // when all were last told that we hold something else
	differPending bool                 // they will be told once more
}

func newBroadcaster(send func(string, byte, []byte), ours func() summary, origin func([]byte) string, share pace.Share) *broadcaster {
	return &broadcaster{
		send: send, ours: ours, origin: origin, swapped: neverSwapped,
		relay:    pace.NewRelay(pace.RelayLimits{Each: originRate, EachAtOnce: bulk, All: relayRate, AllAtOnce: mergeBurst / 2}, share),
		choosers: map[string]time.Time{}, rechecks: map[string]bool{},
	}
}

// spread forwards messages to every neighbour but the one that they came from.
func (b *broadcaster) spread(msgs [][]byte, from string) {
	peers := slices.DeleteFunc(b.neighbours(), func(peer string) bool { return peer == from })
	if len(msgs) == 0 || len(peers) == 0 { // who joins later pulls
		return
	}
	announce := len(msgs) > bulk
	if announce {
		msgs = nil
	}
	for _, msg := range msgs {
		if len(msg) > maxInline || !b.relay.Allow(cmp.Or(b.origin(msg), from), messageCost(msg), from == "") {
			announce = true
			continue
		}
		for _, peer := range peers {
			b.send(peer, frameMessage, msg)
		}
	}
	if announce {
		b.sendDifferAll()
	}
}

// sendDifferAll tells all neighbours that we hold something new, now or when the
// interval has passed.
func (b *broadcaster) sendDifferAll() {
	b.mu.Lock()
	wait := time.Until(b.lastDiffer.Add(differInterval))
	later, owed := wait > 0, b.differPending
	if later {
		b.differPending = true
	} else {
		b.lastDiffer, b.differPending = time.Now(), false
	}
	b.mu.Unlock()
	switch {
	case !later:
		b.sendDifferTo(b.neighbours())
	case !owed:
		time.AfterFunc(wait, b.sendDifferAll)
	}
}

// sendDiffer tells a peer what we hold when it is known to be something else.
func (b *broadcaster) sendDiffer(peer string) { b.sendDifferTo([]string{peer}) }

func (b *broadcaster) sendDifferTo(peers []string) {
	sum := b.ours()
	for _, peer := range peers {
		b.send(peer, frameDiffer, sum[:])
	}
}

// announceAll lets the neighbours that we chose find out whether they hold the
// same, and tells them that they were chosen. Now and then a live member that a
// swap has pinned compares, too: if it holds something else both pull, since only
// one of them may be able to connect to the other. That does not choose it: a
// member with which everybody has swapped would forward all news to too many.
func (b *broadcaster) announceAll(present []string) {
	peers := b.choices()
	b.announce(peers)
	if !slices.ContainsFunc(peers, b.swapped) && rand.IntN(anchorTurns) == 0 {
		present = slices.DeleteFunc(present, func(peer string) bool { return !b.swapped(peer) })
		if n := len(present); n > 0 {
			b.send(present[rand.IntN(n)], frameDigest, append([]byte{0}, b.contents()...))
		}
	}
}

func (b *broadcaster) announce(peers []string) {
	if len(peers) == 0 {
		return
	}
	sum := b.ours()
	for _, peer := range peers {
		b.send(peer, frameAnnounce, sum[:])
	}
}

// connected makes up for what the peer's last connection can have lost.
func (b *broadcaster) connected(peer string) {
	if b.isWarm(peer) {
		b.announce([]string{peer})
		return
	}
	if slices.Contains(b.neighbours(), peer) {
		b.sendDiffer(peer)
	}
}

// announced takes the announcement of a peer that chose us. If it holds something
// else, it is told so unless that is over after the grace.
func (b *broadcaster) announced(peer string, theirs summary) {
	b.mu.Lock()
	b.addChooserLocked(peer, time.Now())
	waiting := b.rechecks[peer]
	b.mu.Unlock()
	if waiting || b.ours() == theirs {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rechecks[peer] = true
	time.AfterFunc(grace, func() {
		b.mu.Lock()
		delete(b.rechecks, peer)
		b.mu.Unlock()
		if b.ours() != theirs {
			b.sendDiffer(peer)
		}
	})
}

// addChooserLocked notes that a peer chose us. Not all members can: what we forward goes
// to each of them. One that a swap has pinned replaces one that was
// introduced.
func (b *broadcaster) addChooserLocked(peer string, now time.Time) {
	if _, ok := b.choosers[peer]; !ok && len(b.choosers) >= maxChoices*max(1, len(b.warm)) {
		for other, at := range b.choosers {
			if now.Sub(at) > choiceLife {
				delete(b.choosers, other)
			}
		}
		if len(b.choosers) >= maxChoices*max(1, len(b.warm)) && !b.displaceLocked(peer) {
			return
		}
	}
	b.choosers[peer] = now
}

// displaceLocked makes room for a peer that a swap has pinned, if it is one.
func (b *broadcaster) displaceLocked(peer string) bool {
	if !b.swapped(peer) {
		return false
	}
	for other := range b.choosers {
		if !b.swapped(other) {
			delete(b.choosers, other)
			return true
		}
	}
	return false
}

// choices are the neighbours that we chose. They must not be changed.
func (b *broadcaster) choices() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.warm
}

// neighbours are those that we chose and those that chose us.
func (b *broadcaster) neighbours() []string {
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	all := slices.Clone(b.warm)
	for peer, at := range b.choosers {
		if now.Sub(at) <= choiceLife && !slices.Contains(b.warm, peer) {
			all = append(all, peer)
		}
	}
	return all
}

// setNeighbours replaces the neighbours that we choose, and tells new ones what
// we hold: they were not sent what was spread before.
func (b *broadcaster) setNeighbours(warm []string) {
	b.mu.Lock()
	before := b.warm
	b.warm = warm
	b.mu.Unlock()
	b.announce(slices.DeleteFunc(slices.Clone(warm), func(peer string) bool { return slices.Contains(before, peer) }))
}

func (b *broadcaster) isWarm(peer string) bool { return slices.Contains(b.choices(), peer) }
