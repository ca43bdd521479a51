// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"bytes"
	"cmp"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// Bounds of what is accepted from a peer and published by ourselves.
const (
	MaxPayload = 1 << 20
	MaxMessage = MaxPayload + 4<<10
	MaxName    = 253
	MaxOrigin  = 63

	maxNumber = 1 << 62 // an epoch or sequence; leaves room to count on
	maxKind   = 15
)

var (
	// ErrMalformed is returned for bytes that are not the one encoding of a message.
	ErrMalformed = errors.New("malformed message")
	// ErrTooLarge is returned for a message or payload above its bound.
	ErrTooLarge = errors.New("too large")
	// ErrSignature is returned for a message that its origin's pinned key did not sign.
	ErrSignature = errors.New("signature does not verify")
	// ErrUnknownOrigin is returned for a message whose origin has no pinned key.
	ErrUnknownOrigin = errors.New("unknown origin")
	// ErrFull is returned when an origin has used up its share of memory, or all
	// origins have ([Limits]).
	ErrFull = errors.New("origin has too many entries")
)

// Kind says what an entry is about. Kinds that this version does not know are held and
// forwarded, or a newer member's numbers would show a gap here.
type Kind uint8

// The kinds of entries.
const (
	KindCluster Kind = iota + 1 // named by clusterID; only the cluster itself writes it
	KindRule
	KindFeature
	KindAdmission // named by the clusterID of a cluster that the origin admits
)

// Key names an entry within its origin.
type Key struct {
	Kind Kind
	Name string
}

func (k Key) compare(o Key) int {
	return cmp.Or(cmp.Compare(k.Kind, o.Kind), strings.Compare(k.Name, o.Name))
}

// Status says what the origin wants to be done with copies.
type Status uint8

// The statuses of an entry.
const (
	Live      Status = iota + 1
	Withdrawn        // no longer published: copies stay, unmaintained
	Deleted          // tombstone
)

// Entry is one replicated object as its origin wrote it. Its slices are shared with the
// replica and must not be changed.
type Entry struct {
	Key             Key
	Origin          string
	Epoch, Sequence uint64
	Status          Status
	PublicKey       []byte // KindCluster only: the origin's key, which makes the entry self-certifying
	Payload         []byte
}

// record is an entry with its bytes.
type record struct {
	Entry
	claim [32]byte // hash of what the origin retained in the epoch after this entry
	id    [32]byte // hash of the entry without its claim: its element in a [lthash.Set]
	hash  [32]byte // hash of what is signed: breaks ties
	msg   []byte   // verbatim
}

// tombstones is how many a record is.
func (r *record) tombstones() int { return int(flag(r.Status == Deleted)) } //nolint:gosec // 0 or 1

// supersedes orders the records of one key: number first, then the smaller hash.
func (r *record) supersedes(o *record) bool {
	return cmp.Or(r.compareNumber(o), bytes.Compare(o.hash[:], r.hash[:])) > 0
}

func (r *record) compareNumber(o *record) int {
	return cmp.Or(cmp.Compare(r.Epoch, o.Epoch), cmp.Compare(r.Sequence, o.Sequence))
}

// Fields of an entry's core: what the entry says.
const (
	entryKind protowire.Number = iota + 1
	entryName
	entryOrigin
	entryEpoch
	entrySequence
	entryStatus
	entryPublicKey
	entryPayload
)

func encodeEntry(e *Entry) []byte {
	b := make([]byte, 0, len(e.Payload)+len(e.PublicKey)+len(e.Key.Name)+len(e.Origin)+48)
	b = appendUint(b, entryKind, uint64(e.Key.Kind))
	b = appendBytes(b, entryName, []byte(e.Key.Name))
	b = appendBytes(b, entryOrigin, []byte(e.Origin))
	b = appendUint(b, entryEpoch, e.Epoch)
	b = appendUint(b, entrySequence, e.Sequence)
	b = appendUint(b, entryStatus, uint64(e.Status))
	b = appendBytes(b, entryPublicKey, e.PublicKey)
	return appendBytes(b, entryPayload, e.Payload)
}

// decodeEntry also returns where in core the payload begins. The entry aliases it.
func decodeEntry(core []byte) (e Entry, payload int, err error) {
	r := reader{rest: core}
	kind := r.uint(entryKind)
	name := r.bytes(entryName, MaxName)
	origin := r.bytes(entryOrigin, MaxOrigin)
	e = Entry{Epoch: r.uint(entryEpoch), Sequence: r.uint(entrySequence)}
	status := r.uint(entryStatus)
	e.PublicKey = r.bytes(entryPublicKey, ed25519.PublicKeySize)
	e.Payload = r.bytes(entryPayload, MaxPayload)
	payload = len(core) - len(r.rest) - len(e.Payload)
	if err := r.end(entryPayload); err != nil {
		return Entry{}, 0, err
	}
	if kind > maxKind || status > uint64(Deleted) {
		return Entry{}, 0, fmt.Errorf("%w: kind %d, status %d", ErrMalformed, kind, status)
	}
	e.Key, e.Origin, e.Status = Key{Kind(kind), string(name)}, string(origin), Status(status)
	return e, payload, e.check()
}

// check refuses what no origin may write.
func (e *Entry) check() error {
	switch {
	case len(e.Payload) > MaxPayload:
		return fmt.Errorf("%w: payload of %d bytes, at most %d are allowed", ErrTooLarge, len(e.Payload), MaxPayload)
	case e.Key.Kind < 1 || e.Key.Kind > maxKind || !validName(e.Key.Name):
		return fmt.Errorf("%w: key", ErrMalformed)
	case !validOrigin(e.Origin):
		return fmt.Errorf("%w: origin", ErrMalformed)
	case e.Epoch < 1 || e.Epoch > maxNumber || e.Sequence < 1 || e.Sequence > maxNumber:
		return fmt.Errorf("%w: number", ErrMalformed)
	case e.Status < Live || e.Status > Deleted:
		return fmt.Errorf("%w: status", ErrMalformed)
	case e.Status == Deleted && len(e.Payload) > 0:
		return fmt.Errorf("%w: tombstone with a payload", ErrMalformed)
	case e.Key.Kind == KindCluster && (e.Key.Name != e.Origin || len(e.PublicKey) != ed25519.PublicKeySize):
		return fmt.Errorf("%w: a Cluster entry is written by its cluster and carries its key", ErrMalformed)
	case e.Key.Kind != KindCluster && len(e.PublicKey) > 0:
		return fmt.Errorf("%w: public key", ErrMalformed)
	}
	return nil
}

// validName accepts printable ASCII without spaces: names reach logs and statuses.
func validName(s string) bool {
	return s != "" && len(s) <= MaxName && !strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c > '~' })
}

// validOrigin accepts what can be the name of an object (RFC 1123), as a UID can: names and
// keys of Secrets are built from it.
func validOrigin(s string) bool {
	if s == "" || len(s) > MaxOrigin || strings.Contains(s, "..") {
		return false
	}
	for i, c := range s {
		alphanumeric := '0' <= c && c <= '9' || 'a' <= c && c <= 'z'
		if inner := i > 0 && i < len(s)-1; !alphanumeric && (!inner || c != '-' && c != '.') {
			return false
		}
	}
	return true
}

func entryID(core []byte) [32]byte { return sha256.Sum256(core) }
