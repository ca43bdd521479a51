// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"crypto/ed25519"
	"fmt"
	"slices"

	"pgregory.net/rapid"
)

// liar is an origin whose key is stolen: what it signs has nothing to do with what it signed before, and is told to one member at a
// time. It has no replica. What is held of it may be anything: nearly always it is the same everywhere in the end, but what it signed
// below a number that others have completed, they may have given up. It is bounded, and harms nothing of others.
const liar = "liar"

// honest is the hash of what a member holds of all others.
func honest(c *cluster) [32]byte {
	d := c.replica.state.digest()
	d.origins = slices.DeleteFunc(d.origins, func(o originDigest) bool { return o.origin == liar })
	return d.contents()
}

// lie signs an entry or a head, and tells it to a member.
func (m *machine) lie(t *rapid.T, names *rapid.Generator[string]) {
	epoch, sequence := rapid.Uint64Range(1, 4).Draw(t, "epoch"), rapid.Uint64Range(1, 20).Draw(t, "sequence")
	var claim [32]byte
	claim[0] = rapid.Byte().Draw(t, "claim")
	var msg []byte
	switch rapid.IntRange(0, 4).Draw(t, "kind") {
	case 0:
		e := Entry{Key: Key{KindCluster, liar}, Origin: liar, Epoch: epoch, Sequence: sequence, Status: Live, PublicKey: testKey(liar).Public().(ed25519.PublicKey)}
		msg = signEntry(testKey(liar), e, func(id [32]byte) [32]byte { return id }).msg
	case 1:
		h := Head{Origin: liar, Epoch: epoch, Sequence: sequence, Set: claim}
		if h.Complete = rapid.Bool().Draw(t, "complete"); h.Complete {
			h.Announced = rapid.Uint64Range(0, sequence).Draw(t, "announced")
		}
		msg = signHead(testKey(liar), h).msg
	default:
		e := Entry{
			Key: rule(names.Draw(t, "name")), Origin: liar, Epoch: epoch, Sequence: sequence,
			Status: rapid.SampledFrom([]Status{Live, Deleted, Withdrawn}).Draw(t, "status"),
		}
		if e.Status != Deleted {
			e.Payload = fmt.Append(nil, rapid.IntRange(0, 2).Draw(t, "payload"))
		}
		msg = signEntry(testKey(liar), e, func(id [32]byte) [32]byte {
			if rapid.Bool().Draw(t, "claims itself alone") {
				return id
			}
			return claim
		}).msg
	}
	to := m.cluster(t)
	m.deliver(t, packet{from: rapid.IntRange(0, 2).Draw(t, "by way of"), to: to, msg: msg})
}
