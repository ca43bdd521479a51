// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lthash is a hash of a set that is kept up to date at a constant price for each element.
package lthash

import (
	"crypto/sha256"
	"crypto/sha3"
	"encoding/binary"
)

const (
	lanes  = 1024
	domain = "roster/set/v1"
)

// Set is the homomorphic hash of a set of entries, LtHash with 1024 lanes of 16 bits:
// elements are added and removed in any order at a constant price. A sum of plain hashes
// would do the same for fewer bytes, but a relay that holds thousands of an origin's
// entries could look for a subset with the same sum; here that is as hard as finding
// short vectors in a lattice.
type Set [lanes]uint16

// Add adds an element, which is not in the set.
func (s *Set) Add(id [32]byte) {
	expanded := expand(id)
	for i := range s {
		s[i] += binary.LittleEndian.Uint16(expanded[2*i:])
	}
}

// Remove removes an element, which is in the set.
func (s *Set) Remove(id [32]byte) {
	expanded := expand(id)
	for i := range s {
		s[i] -= binary.LittleEndian.Uint16(expanded[2*i:])
	}
}

// Sum is what entries and heads carry.
func (s *Set) Sum() [32]byte {
	var b [2 * lanes]byte
	for i, lane := range s {
		binary.LittleEndian.PutUint16(b[2*i:], lane)
	}
	return sha256.Sum256(b[:])
}

func expand(id [32]byte) (out [2 * lanes]byte) {
	x := sha3.NewSHAKE128()
	x.Write([]byte(domain))
	x.Write(id[:])
	x.Read(out[:])
	return out
}
