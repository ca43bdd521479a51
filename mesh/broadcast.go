// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"slices"
	"sync"

	"github.com/hashicorp/memberlist"
)

const (
	// maxInline is the longest message that is sent to neighbours as it is.
	maxInline = maxFrame - 1
	// maxGossip is the longest message that is gossiped as it is. It leaves
	// memberlist half of a packet, or the message would never find room.
	maxGossip = packetSize / 2
	// bulk is how many messages at once are announced rather than sent: who
	// has just pulled a large delta would send it to neighbours that have it.
	bulk = 64
	// maxGossipQueue bounds what waits for gossip; the oldest go first.
	maxGossipQueue = 1024
)

// broadcaster spreads messages that were seen for the first time. Each goes at
// once to the warm neighbours, and once more into memberlist's gossip, which
// reaches whom a broken neighbour left out. Of what is too long, too much or
// got lost on the way a neighbour gets our digest, and pulls.
//
// Views of who is alive differ for a while, most of all when a group forms, and
// then the choices of neighbours leave holes. So every few seconds members send
// their warm neighbours the hash of their contents; if it differs, both look at
// the other's digest and pull what they lack:
//
//	a ── announce hash(a) ──▶ b    equal: done
//	a ◀── digest(b), wanted ─ b    a lacks something: a pulls
//	a ──── digest(a) ───────▶ b    b lacks something: b pulls
//
// Where a digest fits no frame, who announced gets a summary in its place, and
// both pull.
type broadcaster struct {
	send   func(peer string, kind byte, payload []byte)
	digest func() []byte
	gossip memberlist.TransmitLimitedQueue

	mu   sync.RWMutex
	warm []string
}

func newBroadcaster(send func(string, byte, []byte), digest func() []byte, members func() int) *broadcaster {
	return &broadcaster{
		send:   send,
		digest: digest,
		gossip: memberlist.TransmitLimitedQueue{NumNodes: members, RetransmitMult: 1},
	}
}

// spread forwards messages to everybody but the member that they came from.
func (b *broadcaster) spread(msgs [][]byte, from string) {
	warm := b.neighbours()
	if len(msgs) == 0 || len(warm) == 0 { // who joins later pulls
		return
	}
	announce := len(msgs) > bulk
	if announce {
		msgs = nil
	}
	for _, msg := range msgs {
		if len(msg) > maxInline {
			announce = true
			continue
		}
		for _, peer := range warm {
			if peer != from {
				b.send(peer, frameMessage, msg)
			}
		}
		if len(msg) <= maxGossip {
			b.gossip.QueueBroadcast(gossiped(append([]byte{frameMessage}, msg...)))
		}
	}
	if announce {
		for _, peer := range warm {
			if peer != from {
				b.show(peer)
			}
		}
	}
	if b.gossip.NumQueued() > maxGossipQueue {
		b.gossip.Prune(maxGossipQueue)
	}
}

// announce lets a peer find out whether it holds the same as we do.
func (b *broadcaster) announce(peer string) {
	sum := summarize(b.digest())
	b.send(peer, frameAnnounce, sum[:])
}

// show tells a peer what we hold, or at least that it is something else.
func (b *broadcaster) show(peer string) {
	if !b.sendDigest(peer, false) {
		b.announce(peer)
	}
}

// differ answers a peer that holds something else when our digest fits no
// frame: it pulls. An announcement would be answered in turn, for ever.
func (b *broadcaster) differ(peer string) {
	sum := summarize(b.digest())
	b.send(peer, frameDiffer, sum[:])
}

// announceAll does that with all warm neighbours.
func (b *broadcaster) announceAll() {
	warm := b.neighbours()
	if len(warm) == 0 {
		return
	}
	sum := summarize(b.digest())
	for _, peer := range warm {
		b.send(peer, frameAnnounce, sum[:])
	}
}

// announceIfWarm is for a new connection: only to warm neighbours is anything
// sent that the old one can have lost.
func (b *broadcaster) announceIfWarm(peer string) {
	if b.isWarm(peer) {
		b.announce(peer)
	}
}

// sendDigest tells a peer what we hold, and says whether it could: a digest of
// a thousand origins exceeds a frame, and is exchanged in push/pulls and pulls
// only.
func (b *broadcaster) sendDigest(peer string, wanted bool) bool {
	payload := encodeDigest(b.digest(), wanted)
	if len(payload) > maxFrame {
		return false
	}
	b.send(peer, frameDigest, payload)
	return true
}

func (b *broadcaster) neighbours() []string {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.warm
}

// setNeighbours replaces the warm neighbours, and tells new ones what we hold:
// they were not sent what was spread before. The slice is not changed later.
func (b *broadcaster) setNeighbours(warm []string) {
	b.mu.Lock()
	before := b.warm
	b.warm = warm
	b.mu.Unlock()
	for _, peer := range warm {
		if !slices.Contains(before, peer) {
			b.announce(peer)
		}
	}
}

func (b *broadcaster) isWarm(peer string) bool { return slices.Contains(b.neighbours(), peer) }

// gossiped is a message in memberlist's queue. Messages do not replace each
// other: order and age are not visible here.
type gossiped []byte

func (g gossiped) Invalidates(memberlist.Broadcast) bool { return false }
func (g gossiped) Message() []byte                       { return g }
func (g gossiped) Finished()                             {}

// UniqueBroadcast spares the queue the search for what this one replaces.
func (g gossiped) UniqueBroadcast() {}
