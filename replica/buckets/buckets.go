// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package buckets compares sets in parts, so that a difference brings a part of the set only.
package buckets

import "crypto/sha256"

// N is how many parts there are.
const N = 16

// Sums is one hash for each part, zero for an empty one.
type Sums [N][8]byte

// Size is that of the encoded sums of a set that is not empty.
const Size = N * 8

// Bytes encodes the sums; nil for those of an empty set.
func (ours *Sums) Bytes() (b []byte) {
	if *ours == (Sums{}) {
		return nil
	}
	for _, sum := range ours {
		b = append(b, sum[:]...)
	}
	return b
}

// Read takes what Bytes has encoded, and says whether it is that of a set that is not empty.
func (ours *Sums) Read(b []byte) bool {
	if len(b) != Size {
		return false
	}
	for i := range ours {
		ours[i] = [8]byte(b[i*8:])
	}
	return *ours != Sums{}
}

// Of is the part that something is in.
func Of(id string) int {
	sum := sha256.Sum256([]byte(id))
	return int(sum[0]) % N
}

// Sum makes the sums of what the parts have, in one order everywhere.
func Sum(all [N][]byte) (sums Sums) {
	for i, hashes := range all {
		if len(hashes) > 0 {
			sum := sha256.Sum256(hashes)
			sums[i] = [8]byte(sum[:8])
		}
	}
	return sums
}

// Lacks says whether who has theirs may hold what is not in ours.
func (ours *Sums) Lacks(theirs *Sums) bool {
	for i := range ours {
		if theirs[i] != ours[i] && theirs[i] != [8]byte{} {
			return true
		}
	}
	return false
}
