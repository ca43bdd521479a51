// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"crypto/sha256"
	"crypto/sha3"
	"encoding/binary"
)

const (
	setLanes  = 1024
	setDomain = "roster/set/v1"
)

// set is the homomorphic hash of a set of entries, LtHash with 1024 lanes of 16 bits:
// elements are added and removed in any order at a constant price. A sum of plain hashes
// would do the same for fewer bytes, but a relay that holds thousands of an origin's
// entries could look for a subset with the same sum; here that is as hard as finding
// short vectors in a lattice.
type set [setLanes]uint16

func (s *set) add(id [32]byte) {
	expanded := expand(id)
	for i := range s {
		s[i] += binary.LittleEndian.Uint16(expanded[2*i:])
	}
}

func (s *set) remove(id [32]byte) {
	expanded := expand(id)
	for i := range s {
		s[i] -= binary.LittleEndian.Uint16(expanded[2*i:])
	}
}

// sum is what entries and heads carry.
func (s *set) sum() [32]byte {
	var b [2 * setLanes]byte
	for i, lane := range s {
		binary.LittleEndian.PutUint16(b[2*i:], lane)
	}
	return sha256.Sum256(b[:])
}

func expand(id [32]byte) (out [2 * setLanes]byte) {
	x := sha3.NewSHAKE128()
	x.Write([]byte(setDomain))
	x.Write(id[:])
	x.Read(out[:])
	return out
}
