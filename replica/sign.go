// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// A message is signed over its domain, the hash of its core and its set claim. The
// domain keeps an entry from being taken for a head.
const (
	entryDomain = "roster/entry/v1"
	headDomain  = "roster/head/v1"
)

// Fields of a message: one of the two cores, the claim and the signature; or a removal, which has no claim.
const (
	messageEntry protowire.Number = iota + 1
	messageHead
	messageClaim
	messageSignature
	messageRemoval
	messageRemovalSignature
)

// signable is what the key signs; its hash is the identity of the message.
func signable(domain string, core [32]byte, claim [32]byte) []byte {
	b := make([]byte, 0, len(domain)+len(core)+len(claim))
	b = append(b, domain...)
	b = append(b, core[:]...)
	return append(b, claim[:]...)
}

// signEntry signs an entry; claimOf tells the hash of the set that has the entry in it.
func signEntry(key ed25519.PrivateKey, e Entry, claimOf func(id [32]byte) [32]byte) *record {
	core := encodeEntry(&e)
	id := entryID(core)
	claim := claimOf(id)
	signed := signable(entryDomain, id, claim)
	msg := encodeMessage(messageEntry, core, claim, ed25519.Sign(key, signed))
	return &record{Entry: e, claim: claim, id: id, hash: sha256.Sum256(signed), msg: msg}
}

func signHead(key ed25519.PrivateKey, h Head) *headRecord {
	core := encodeHead(&h)
	signed := signable(headDomain, sha256.Sum256(core), h.Set)
	msg := encodeMessage(messageHead, core, h.Set, ed25519.Sign(key, signed))
	return &headRecord{Head: h, hash: sha256.Sum256(signed), msg: msg}
}

func encodeMessage(field protowire.Number, core []byte, claim [32]byte, signature []byte) []byte {
	b := make([]byte, 0, len(core)+128)
	b = appendBytes(b, field, core)
	b = appendBytes(b, messageClaim, claim[:])
	return appendBytes(b, messageSignature, signature)
}

// message is a decoded message whose signature has not been checked yet: an entry, a head
// or a removal.
type message struct {
	entry     *record
	head      *headRecord
	removal   *removalRecord
	payload   int // where in an entry's message its payload begins
	signed    []byte
	signature []byte
}

// decodeMessage checks everything but the signature. The result aliases msg.
func decodeMessage(msg []byte) (*message, error) {
	if len(msg) > MaxMessage {
		return nil, fmt.Errorf("%w: message of %d bytes, at most %d are allowed", ErrTooLarge, len(msg), MaxMessage)
	}
	r := reader{rest: msg}
	if core := r.bytes(messageRemoval, maxRemoval); core != nil {
		signature := make([]byte, ed25519.SignatureSize)
		r.fixed(messageRemovalSignature, signature)
		if err := r.done(); err != nil {
			return nil, err
		}
		removal, err := decodeRemoval(msg, core, signature)
		if err != nil {
			return nil, err
		}
		return &message{removal: removal}, nil
	}
	entryCore := r.bytes(messageEntry, MaxMessage)
	start := len(msg) - len(r.rest) - len(entryCore)
	headCore := r.bytes(messageHead, MaxMessage)
	var claim [32]byte
	var signature [ed25519.SignatureSize]byte
	r.fixed(messageClaim, claim[:])
	r.fixed(messageSignature, signature[:])
	if err := r.done(); err != nil {
		return nil, err
	}
	if (entryCore == nil) == (headCore == nil) {
		return nil, fmt.Errorf("%w: a message is an entry or a head", ErrMalformed)
	}
	m := &message{signature: signature[:]}
	if entryCore != nil {
		e, payload, err := decodeEntry(entryCore)
		if err != nil {
			return nil, err
		}
		m.payload = start + payload
		id := entryID(entryCore)
		m.signed = signable(entryDomain, id, claim)
		m.entry = &record{Entry: e, claim: claim, id: id, hash: sha256.Sum256(m.signed), msg: msg}
		return m, nil
	}
	h, err := decodeHead(headCore)
	if err != nil {
		return nil, err
	}
	h.Set = claim
	m.signed = signable(headDomain, sha256.Sum256(headCore), claim)
	m.head = &headRecord{Head: h, hash: sha256.Sum256(m.signed), msg: msg}
	return m, nil
}

func (m *message) origin() string {
	if m.entry != nil {
		return m.entry.Origin
	}
	return m.head.Origin
}

// Origin names whom a message comes from, if it is one; it checks nothing else.
func Origin(msg []byte) string {
	r := reader{rest: msg}
	if core := r.bytes(messageEntry, MaxMessage); core != nil {
		c := reader{rest: core}
		c.uint(entryKind)
		c.bytes(entryName, MaxName)
		return string(c.bytes(entryOrigin, MaxOrigin))
	}
	c := reader{rest: r.bytes(messageHead, MaxMessage)}
	return string(c.bytes(headOrigin, MaxOrigin))
}

func (m *message) bytes() []byte {
	if m.entry != nil {
		return m.entry.msg
	}
	return m.head.msg
}

// verify checks the signature, and that a Cluster entry names the key that it is
// checked with.
func (m *message) verify(key ed25519.PublicKey) error {
	if len(key) != ed25519.PublicKeySize || !ed25519.Verify(key, m.signed, m.signature) {
		return fmt.Errorf("%w: message of origin %s", ErrSignature, m.origin())
	}
	if m.entry != nil && m.entry.Key.Kind == KindCluster && !bytes.Equal(m.entry.PublicKey, key) {
		return fmt.Errorf("%w: the Cluster entry of %s names another key than the pinned one", ErrSignature, m.origin())
	}
	return nil
}

// detach moves the message off the buffer that it was decoded from.
func (m *message) detach() {
	if m.head != nil {
		m.head.msg = bytes.Clone(m.head.msg)
		return
	}
	e := m.entry
	e.msg = bytes.Clone(e.msg)
	e.PublicKey = bytes.Clone(e.PublicKey)
	if to := m.payload + len(e.Payload); len(e.Payload) > 0 {
		e.Payload = e.msg[m.payload:to:to]
	}
}
