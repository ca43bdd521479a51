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
// reaches whom a broken neighbour left out. What is too long, too much or got
// lost on the way is announced by the hash of our digest: a neighbour whose
// own differs pulls.
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
		sum := summarize(b.digest())
		for _, peer := range warm {
			if peer != from {
				b.send(peer, frameAnnounce, sum[:])
			}
		}
		b.gossip.QueueBroadcast(announced(append([]byte{frameAnnounce}, sum[:]...)))
	}
	if b.gossip.NumQueued() > maxGossipQueue {
		b.gossip.Prune(maxGossipQueue)
	}
}

// announce tells one peer what we hold.
func (b *broadcaster) announce(peer string) {
	sum := summarize(b.digest())
	b.send(peer, frameAnnounce, sum[:])
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

// announced is an announcement in memberlist's queue; only the newest counts.
type announced []byte

func (a announced) Invalidates(other memberlist.Broadcast) bool {
	_, ok := other.(announced)
	return ok
}
func (a announced) Message() []byte { return a }
func (a announced) Finished()       {}

// Name makes a newer announcement replace an older one.
func (a announced) Name() string { return "announce" }
