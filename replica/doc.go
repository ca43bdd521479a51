// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package replica keeps the registry of a group: what every cluster (origin) says
// about its own objects, in a form that any two members can merge in any order.
//
// # Entries and numbers
//
// Only its origin writes an entry. It numbers what it writes (epoch, sequence) without
// gaps, from (E, 1), and signs it; members store and forward those bytes verbatim. Per
// origin and key the highest number wins. The origins are independent of each other:
// the replica is the product of one semilattice per origin, and a member that lies can
// only spoil what is said of itself.
//
// # The set claim
//
// Members forward only what is not superseded, so a newcomer sees the numbers 3, 7, 12
// and has to tell a superseded number from a withheld one. Nobody's word is taken for
// it: each entry (and each head) carries, under the origin's signature, the hash of all
// that the origin retained in that epoch right after the entry was written (live,
// withdrawn and deleted entries, the newest of each key). Whoever holds a set with
// that hash holds everything up to that number. The hash is homomorphic (LtHash: Lewi
// et al., "Securing Update Propagation with Homomorphic Hashing", 2019), so it costs the
// same for 20 entries and for 20,000.
//
// The frontier of an epoch is the number up to which everything is held or superseded.
// It advances when the next number arrives, and jumps when a claim is met. An entry past
// a gap is merged, leaves the frontier where it is and asks for a pull.
//
// A delta brings what two digests explain: the numbers above the receiver's frontier. It
// ends with the origin's head, and a receiver that is not whole even then doubts its
// numbers and says so in its next digest, which gets it everything. When even that leaves it
// behind (the origin skipped a number, or an entry is lost for ever), it goes back to
// numbers, from the highest known on; nothing counts as absent meanwhile, and nothing more is asked for at once:
// neighbours that compare what they hold find it. Where no head closes the deltas, how much they repeat tells. Members whose
// numbers are equal and whose contents are not exchange everything.
//
// # Epochs and completeness
//
//	    Reopen / restart           Complete                 every member that proves it
//	───► announcing (E) ──────► head (E, S, complete) ──────► keys below E are absent
//
// An origin that starts again opens a higher epoch and announces its whole set there.
// Until the mark is proven, entries of the lower epochs stay in force; entries of the new
// one win key by key. The mark is proven once a claim at or past the number at which the
// announcement ended (Head.Announced) is met. From then on what the origin did not
// repeat is absent and freed, except withdrawn entries: they survive, because their
// origin may have forgotten them while their copies live on.
//
// That is also how tombstones end: an origin that has more of them than it should, and than other entries,
// announces these in the next epoch ([Replica.TooManyTombstones], [Replica.Reopen]). Who was away, for however long,
// proves the newest epoch when it is back, and drops what is not in it. So nothing depends on when a
// tombstone was collected, nor on any clock.
//
// # Removals
//
// A removal says that a key does not speak for its cluster any more. It is signed by the member that
// orders it (by the cluster itself when it leaves), and is in nobody's set: it outlives its
// author's epochs and its author. The removals that are held are a set that only grows.
// Nothing takes one back; so two members that remove each other are both removed, and what
// was removed by a cluster that is removed itself stays removed. What the key published is
// dropped, whatever arrives later. A removal counts when its author's key is pinned, or when
// it comes in the delta of a pinned member: nobody can tell whether its author knew of his
// own removal, and to keep a key out errs on the safe side.
//
// # Laws
//
// The tests state them; a change that breaks one is wrong.
//
//  1. Merge is idempotent, commutative and associative: entries, heads and removals, duplicated
//     and in any order, give the same contents.
//  2. b.Merge(a.Delta(b.Digest())) holds what a holds; after both directions the digests
//     are equal.
//  3. Nothing is resurrected: a superseded entry and an entry below a completed epoch
//     change nothing, whenever they arrive.
//  4. Nothing is deleted that its origin did not delete: [Replica.Absent] answers true
//     only with signed proof.
//  5. No entry is held that its origin did not sign, nor one of a key that is known to be
//     removed.
//
// Law 1 and law 2 hold within the [Limits]. Of an origin that exceeds them, or has more than its share where others need it,
// each member keeps what came first, and may keep other entries than its peers. It says so in its digest, is
// sent no more than new numbers of that origin until there is room, and takes nothing of it
// for absent meanwhile. Law 2 takes one more exchange while an entry is given up as lost.
//
// Two footnotes. Freeing forgets: a withdrawn entry that was live again before its epoch
// was superseded, and comes back from a member that missed all of this, is taken as
// withdrawn again. That errs on the side that deletes nothing, and all members still agree.
// And what a member has proven is knowledge, not contents: two members with equal
// contents may have different frontiers while an entry is lost and its origin away.
//
// # Clones
//
// A cloned cluster signs different entries with the same number. Of two entries of
// one key the smaller hash wins. Entries of different keys are both kept, even below the
// frontier, or members would never agree; no mark is proven over such a set, so a
// clone deletes nothing. All of it is reported by [Replica.Clones], at the origin too,
// which must then stop publishing.
//
// # Shape
//
// [State] is pure: no lock, clock, log or I/O, the same result from the same
// messages; a replicated log can drive it. [Replica] is the shell that makes it safe for
// concurrent use, checks signatures and tells its subscriber what to read again. Messages
// come from hostile peers: sizes are bounded before anything is allocated, one origin's
// share of memory and that of all together are bounded by [Limits] and shared by who admitted whom, and there is one
// encoding only of each message (protobuf wire format; repeated or misplaced fields are refused).
//
// # Later versions
//
// Members of several versions form one group while it is upgraded. So that a version can say more than the
// one before:
//
//   - The cores of entries, heads and removals, and digests with their parts, may have further fields behind those that
//     a reader knows; it steps over them. What is signed is kept and passed on verbatim, with those
//     fields, and its hash covers them.
//   - What is around a core is not signed: a field there would be whoever's passes it on. It stays as it is.
//   - The hash that opens a digest is over what the first version put there, for ever: members compare it. What is
//     held beyond that is compared by a hash in a further field.
//   - A new kind of entry is held and forwarded by members that do not know it, up to 15. Another status, or a message
//     that is no entry, head or removal, is refused by them; so it is sent only to whoever says in a
//     further field of its digest that it knows what that is.
package replica
