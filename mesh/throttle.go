// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package mesh

const (
	// mergeBurst is how many messages that took a look at their signature a peer
	// may send at once: more than the largest set of an origin and all that a
	// newcomer pulls in a group of some thousand.
	mergeBurst = 1 << 15
	// mergeRate is how many it may send a second after that, per peer. With all that follows from
	// one that is new it costs a third of a millisecond of a processor, of which the signature is a fifth.
	mergeRate = 250
	// mergeBytes of a message count as another one: what is new is hashed, kept
	// and written to disk. So 2 MB a second are left to a peer.
	mergeBytes = 8 << 10
	// pullRate is how many pulls a second of one peer are answered, once it has
	// used up pullBurst of them: each looks at all that is held. pullBytes of an answer count as another one, since a
	// peer may say each time that it holds nothing.
	pullRate  = 5
	pullBurst = 50
	pullBytes = 1 << 20
	// gapRate is how many times a second what a delta lacked is asked of another member, once gapBurst of them are
	// used up: its origin may promise what nobody has. What is left out shows when neighbours compare what they hold.
	gapRate  = 1
	gapBurst = 8
	// pacedPeers is how many peers may use up their paces at a time, which takes a processor: then all share that.
	pacedPeers = 16
)

// messageCost is what a message counts that took a look at its signature. One
// that is known already costs next to nothing and does not count.
func messageCost(msg []byte) int { return 1 + len(msg)/mergeBytes }
