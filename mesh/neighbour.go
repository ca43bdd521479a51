// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"math"
	"slices"
)

// ringCount is how many successors on the ring a member chooses: with two the
// ring outlives a failure that nobody has noticed yet.
const ringCount = 2

// warmCount is how many neighbours a member of a group of n chooses. It is
// chosen by as many, and news goes both ways, so that each has about
// ln n + 3 neighbours: with random targets, ln n copies each reach everybody
// with high probability (Kermarrec, Massoulié, Ganesh 2003), and docs/scale.md
// has what the others save in hops.
func warmCount(n int) int {
	if n < 2 {
		return 0
	}
	return min(n-1, int(math.Ceil((math.Log(float64(n))+3)/2)))
}

// neighbours chooses self's warm neighbours among the other live members: two
// of them are its successors on a ring ordered by the hash of the clusterID,
// so that the graph of all choices is connected; the rest are those whose hash
// together with a secret of self is smallest, which is as good as random and yet
// changes little when members come and go. Nobody else can make up clusterIDs
// that it is sure to choose.
func neighbours(self, secret string, others []string) []string {
	count := warmCount(len(others) + 1)
	ring := byHash(others, "")
	own := sha256.Sum256([]byte(self))
	start, _ := slices.BinarySearchFunc(ring, own, func(m hashed, own [sha256.Size]byte) int {
		return bytes.Compare(m.hash[:], own[:])
	})
	chosen := make([]string, 0, count)
	for i := range min(ringCount, count) {
		chosen = append(chosen, ring[(start+i)%len(ring)].id)
	}
	for _, m := range byHash(others, secret) {
		if len(chosen) >= count {
			break
		}
		if !slices.Contains(chosen, m.id) {
			chosen = append(chosen, m.id)
		}
	}
	return chosen
}

type hashed struct {
	id   string
	hash [sha256.Size]byte
}

// byHash orders members by the hash of salt and clusterID.
func byHash(ids []string, salt string) []hashed {
	ring := make([]hashed, len(ids))
	for i, id := range ids {
		ring[i] = hashed{id, sha256.Sum256([]byte(salt + id))}
	}
	slices.SortFunc(ring, func(a, b hashed) int {
		return cmp.Or(bytes.Compare(a.hash[:], b.hash[:]), cmp.Compare(a.id, b.id))
	})
	return ring
}
