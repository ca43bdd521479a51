// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/roster-mesh/roster/replica/limits"
	"github.com/roster-mesh/roster/replica/removalguard"
)

// ErrRemoved is returned for what a key says that was removed from the group.
var ErrRemoved = errors.New("the key was removed from the group")

const (
	removalDomain = "roster/removal/v1"
	maxRemoval    = 2 << 10
)

// Removal says that a key does not speak for a cluster any more. It is signed by the member that says so: by the
// cluster itself when it leaves. It is no entry of its author's set: it outlives the epochs of the author, and
// the author's own removal, for it is kept for ever.
type Removal struct {
	ClusterID string
	PublicKey ed25519.PublicKey // that is removed
	By        string            // clusterID of who says so
	ByKey     ed25519.PublicKey
	// Name and ByName are what the two were called, and Time (Unix seconds) is when, for people: nothing is
	// decided by them.
	Name, ByName string
	Time         int64
	// Successor is, if the cluster left, the key that it goes on under. It is optional, and nil in any other removal.
	Successor ed25519.PublicKey
	// Voucher is the member that brought it here, where its author's key was not pinned. Nobody signed that; it is to be
	// recorded, so that a restart does not forget how many a member has brought.
	Voucher string
	// Introducer is the member on whose word the removed key was pinned here, if one was. It is to be recorded, too.
	Introducer string
	// Standing is what has become of it here: it is to be recorded, too.
	Standing removalguard.Standing

	msg []byte // verbatim
}

// Left says that the cluster went by itself.
func (r *Removal) Left() bool { return r.By == r.ClusterID && r.ByKey.Equal(r.PublicKey) }

// Message is the removal as it was signed, to be recorded and broadcast. It must not be changed.
func (r *Removal) Message() []byte { return r.msg }

// Fields of a removal's core.
const (
	removalCluster protowire.Number = iota + 1
	removalKey
	removalBy
	removalByKey
	removalName
	removalByName
	removalTime
	removalSuccessor // versions that do not know it step over it
)

// removalRecord is a removal with what it is compared by.
type removalRecord struct {
	Removal
	hash      [32]byte
	signature []byte
	sponsor   string // who answers for it: its author's key, or the clusterID of who brought it
}

// removedKey is what a removal is about.
type removedKey struct{ cluster, key string }

func (r *Removal) about() removedKey { return removedKey{r.ClusterID, string(r.PublicKey)} }

func (r *removalRecord) counted() limits.Removal {
	return limits.Removal{Removed: r.ClusterID, Introducer: r.Introducer, Sponsor: r.sponsor, Author: r.By, Voucher: r.Voucher}
}

// ParseRemoval reads a recorded removal, and checks that it was signed by who it names.
func ParseRemoval(msg []byte) (Removal, error) {
	m, err := decodeMessage(msg)
	switch {
	case err != nil:
		return Removal{}, err
	case m.removal == nil:
		return Removal{}, fmt.Errorf("%w: not a removal", ErrMalformed)
	}
	if err := m.removal.verify(); err != nil {
		return Removal{}, err
	}
	m.removal.detach()
	return m.removal.Removal, nil
}

func signRemoval(key ed25519.PrivateKey, r Removal) (*removalRecord, error) {
	r.ByKey = key.Public().(ed25519.PublicKey)
	if err := r.check(); err != nil {
		return nil, err
	}
	core := encodeRemoval(&r)
	signed := removalSigned(core)
	signature := ed25519.Sign(key, signed)
	r.msg = appendBytes(appendBytes(nil, messageRemoval, core), messageRemovalSignature, signature)
	return &removalRecord{Removal: r, hash: sha256.Sum256(signed), signature: signature}, nil
}

func removalSigned(core []byte) []byte {
	sum := sha256.Sum256(core)
	return append([]byte(removalDomain), sum[:]...)
}

func encodeRemoval(r *Removal) []byte {
	b := appendBytes(nil, removalCluster, []byte(r.ClusterID))
	b = appendBytes(b, removalKey, r.PublicKey)
	b = appendBytes(b, removalBy, []byte(r.By))
	b = appendBytes(b, removalByKey, r.ByKey)
	b = appendBytes(b, removalName, []byte(r.Name))
	b = appendBytes(b, removalByName, []byte(r.ByName))
	b = appendUint(b, removalTime, uint64(max(r.Time, 0))) //nolint:gosec // not negative
	return appendBytes(b, removalSuccessor, r.Successor)
}

// decodeRemoval checks everything but the signature. The result aliases msg and core, and keeps signature.
func decodeRemoval(msg, core, signature []byte) (*removalRecord, error) {
	r := reader{rest: core}
	var out Removal
	out.ClusterID = string(r.bytes(removalCluster, MaxOrigin))
	out.PublicKey = r.bytes(removalKey, ed25519.PublicKeySize)
	out.By = string(r.bytes(removalBy, MaxOrigin))
	out.ByKey = r.bytes(removalByKey, ed25519.PublicKeySize)
	out.Name, out.ByName = string(r.bytes(removalName, MaxName)), string(r.bytes(removalByName, MaxName))
	at := r.uint(removalTime)
	successor := r.bytes(removalSuccessor, maxRemoval)
	if err := r.end(removalSuccessor); err != nil {
		return nil, err
	}
	if at > maxNumber {
		return nil, fmt.Errorf("%w: time of a removal", ErrMalformed)
	}
	out.Time, out.msg = int64(at), msg //nolint:gosec // bounded above
	if err := out.check(); err != nil {
		return nil, err
	}
	if out.Left() && len(successor) == ed25519.PublicKeySize { // no reason to refuse the rest: earlier versions do not look at it
		out.Successor = successor
	}
	return &removalRecord{Removal: out, hash: sha256.Sum256(removalSigned(core)), signature: signature}, nil
}

// beats says which of two removals of one key is kept: that of another member rather than that of the key itself, or
// who has stolen a key could have its successor named after everybody was told to refuse it; then the smaller hash.
func (r *removalRecord) beats(held *removalRecord) bool {
	if r.Left() != held.Left() {
		return held.Left()
	}
	return bytes.Compare(r.hash[:], held.hash[:]) < 0
}

// check refuses what no member may say.
func (r *Removal) check() error {
	switch {
	case !validOrigin(r.ClusterID) || !validOrigin(r.By):
		return fmt.Errorf("%w: clusterID of a removal", ErrMalformed)
	case len(r.PublicKey) != ed25519.PublicKeySize || len(r.ByKey) != ed25519.PublicKeySize:
		return fmt.Errorf("%w: key of a removal", ErrMalformed)
	case r.By != r.ClusterID && r.ByKey.Equal(r.PublicKey):
		return fmt.Errorf("%w: a removal by the removed key in another cluster's name", ErrMalformed)
	case r.Name != "" && !validName(r.Name) || r.ByName != "" && !validName(r.ByName):
		return fmt.Errorf("%w: name in a removal", ErrMalformed)
	}
	return nil
}

func (r *removalRecord) verify() error {
	if !ed25519.Verify(r.ByKey, append([]byte(removalDomain), hashOfCore(r.msg)...), r.signature) {
		return fmt.Errorf("%w: removal by %s", ErrSignature, r.By)
	}
	return nil
}

func hashOfCore(msg []byte) []byte {
	r := reader{rest: msg}
	sum := sha256.Sum256(r.bytes(messageRemoval, maxRemoval))
	return sum[:]
}

// detach moves the removal off the buffer that it was decoded from.
func (r *removalRecord) detach() {
	r.msg, r.PublicKey, r.ByKey, r.Successor = bytes.Clone(r.msg), bytes.Clone(r.PublicKey), bytes.Clone(r.ByKey), bytes.Clone(r.Successor)
}
