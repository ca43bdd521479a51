// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/roster-mesh/roster/replica/buckets"
)

// Bounds of a digest that is accepted from a peer: about 150 bytes an origin.
const (
	maxDigest        = 2 << 20
	maxDigestOrigins = 8192
	maxLayerDigest   = 256 // 60 today
)

// digest says, per origin, what its sender holds. On the wire it opens with a hash of
// the contents alone: equal hashes mean equal contents, whatever else (a frontier) the
// two sides know differently.
type digest struct {
	hash     [32]byte
	origins  []originDigest // ascending, unique
	removals buckets.Sums
}

type originDigest struct {
	origin    string
	completed uint64
	held      summary
	layers    []layerDigest // ascending, unique
	full      bool          // there is no room for all of it
}

type layerDigest struct {
	epoch, frontier, highest uint64
	head                     [8]byte // of its hash; zero is none
	doubt                    doubt
}

// doubt says how far a frontier is to be relied on.
type doubt uint8

const (
	trusted   doubt = iota
	doubted         // numbers did not bring what was lacking: send everything
	abandoned       // nor did that: what is lacking below the frontier is given up
)

// summary is the hash of a set of records.
type summary [16]byte

const (
	digestHash protowire.Number = iota + 1
	digestOrigin
	digestRemovals // the hashes of all buckets; absent when there are none
)

const (
	originID protowire.Number = iota + 1
	originCompleted
	originHeld
	originLayer
	originFull
)

const (
	layerEpoch protowire.Number = iota + 1
	layerFrontier
	layerHighest
	layerHead
	layerDoubt
)

func (s *State) digest() digest {
	d := digest{removals: *s.removals.digest(), origins: make([]originDigest, 0, len(s.origins))}
	layers := make([]layerDigest, 0, len(s.origins)) // of all origins, in one array
	for _, id := range s.ids() {
		o := s.origins[id]
		first := len(layers)
		for _, l := range o.layers {
			if l.claimed() > 0 || l.head != nil || l.abandonedTo > 0 {
				layers = append(layers, l.digest())
			}
		}
		if of := layers[first:len(layers):len(layers)]; len(of) > 0 {
			d.origins = append(d.origins, originDigest{origin: id, completed: o.completed, held: o.held(), layers: of, full: o.full()})
		}
	}
	d.hash = d.contents()
	return d
}

func (l *layer) digest() layerDigest {
	d := layerDigest{epoch: l.epoch, frontier: l.asked(), highest: l.highest, doubt: l.doubt}
	if l.head != nil {
		d.head = [8]byte(l.head.hash[:8])
	}
	return d
}

// held is the hash of all records, in an order of its own.
func (o *origin) held() summary {
	if o.summary != nil {
		return *o.summary
	}
	all, h := o.all(), sha256.New()
	slices.SortFunc(all, func(a, b *record) int { return bytes.Compare(a.hash[:], b.hash[:]) })
	for _, r := range all {
		h.Write(r.hash[:])
	}
	sum := summary(h.Sum(nil))
	o.summary = &sum
	return sum
}

// all returns every record held, of all epochs, unordered.
func (o *origin) all() []*record {
	var all []*record
	for _, l := range o.layers {
		all = slices.AppendSeq(all, maps.Values(l.records))
	}
	return slices.AppendSeq(all, maps.Values(o.withdrawn))
}

// contents is the hash of everything in the digest that is not mere knowledge.
func (d *digest) contents() [32]byte {
	h := sha256.New()
	for _, o := range d.origins {
		b := appendBytes(nil, originID, []byte(o.origin))
		b = appendBytes(b, originHeld, o.held[:])
		for _, l := range o.layers {
			if l.head != [8]byte{} {
				b = appendUint(b, layerEpoch, l.epoch)
				b = appendBytes(b, layerHead, l.head[:])
			}
		}
		h.Write(b)
	}
	h.Write(appendBytes(nil, digestRemovals, d.removals.Bytes()))
	return [32]byte(h.Sum(nil))
}

// takeRemovals reads what removals.Bytes has written.
func (d *digest) takeRemovals(r *reader) {
	if b := r.bytes(digestRemovals, buckets.Size); b != nil && r.err == nil && !d.removals.Read(b) {
		r.err = fmt.Errorf("%w: removals of a digest", ErrMalformed)
	}
}

func (d *digest) encode() []byte {
	b := appendBytes(make([]byte, 0, 128*(1+len(d.origins))), digestHash, d.hash[:])
	var c, e []byte
	for _, o := range d.origins {
		c = appendBytes(c[:0], originID, []byte(o.origin))
		c = appendUint(c, originCompleted, o.completed)
		c = appendBytes(c, originHeld, o.held[:])
		for _, l := range o.layers {
			e = appendUint(e[:0], layerEpoch, l.epoch)
			e = appendUint(e, layerFrontier, l.frontier)
			e = appendUint(e, layerHighest, l.highest)
			if l.head != [8]byte{} {
				e = appendBytes(e, layerHead, l.head[:])
			}
			e = appendUint(e, layerDoubt, uint64(l.doubt))
			c = appendBytes(c, originLayer, e)
		}
		c = appendUint(c, originFull, flag(o.full))
		b = appendBytes(b, digestOrigin, c)
	}
	return appendBytes(b, digestRemovals, d.removals.Bytes())
}

func decodeDigest(b []byte) (digest, error) {
	if len(b) > maxDigest {
		return digest{}, fmt.Errorf("%w: digest of %d bytes, at most %d are allowed", ErrTooLarge, len(b), maxDigest)
	}
	var d digest
	r := reader{rest: b}
	r.fixed(digestHash, d.hash[:])
	for r.err == nil {
		c := r.bytes(digestOrigin, maxDigest)
		if c == nil {
			break
		}
		o, err := decodeOriginDigest(c)
		if err != nil {
			return digest{}, err
		}
		n := len(d.origins)
		if n > 0 && strings.Compare(d.origins[n-1].origin, o.origin) >= 0 || n == maxDigestOrigins {
			return digest{}, fmt.Errorf("%w: origins of a digest", ErrMalformed)
		}
		d.origins = append(d.origins, o)
	}
	d.takeRemovals(&r)
	if err := r.end(digestRemovals); err != nil {
		return digest{}, err
	}
	if d.hash != d.contents() {
		return digest{}, fmt.Errorf("%w: hash of a digest", ErrMalformed)
	}
	return d, nil
}

func decodeOriginDigest(b []byte) (originDigest, error) {
	r := reader{rest: b}
	o := originDigest{origin: string(r.bytes(originID, MaxOrigin)), completed: r.uint(originCompleted)}
	r.fixed(originHeld, o.held[:])
	for r.err == nil {
		c := r.bytes(originLayer, maxLayerDigest)
		if c == nil {
			break
		}
		l, err := decodeLayerDigest(c)
		if err != nil {
			return originDigest{}, err
		}
		n := len(o.layers)
		if n > 0 && o.layers[n-1].epoch >= l.epoch || n == maxLayers {
			return originDigest{}, fmt.Errorf("%w: epochs of a digest", ErrMalformed)
		}
		o.layers = append(o.layers, l)
	}
	full := r.uint(originFull)
	o.full = full == 1
	if err := r.end(originFull); err != nil {
		return originDigest{}, err
	}
	if !validOrigin(o.origin) || len(o.layers) == 0 || o.completed > maxNumber || full > 1 {
		return originDigest{}, fmt.Errorf("%w: origin in a digest", ErrMalformed)
	}
	return o, nil
}

func decodeLayerDigest(b []byte) (layerDigest, error) {
	r := reader{rest: b}
	l := layerDigest{epoch: r.uint(layerEpoch), frontier: r.uint(layerFrontier), highest: r.uint(layerHighest)}
	head := r.bytes(layerHead, len(l.head))
	d := r.uint(layerDoubt)
	if err := r.end(layerDoubt); err != nil {
		return layerDigest{}, err
	}
	copy(l.head[:], head)
	l.doubt = doubt(min(d, uint64(abandoned)))
	if head != nil && (len(head) != len(l.head) || l.head == [8]byte{}) || d > uint64(abandoned) ||
		l.epoch < 1 || l.epoch > maxNumber || l.frontier > maxNumber || l.highest > maxNumber {
		return layerDigest{}, fmt.Errorf("%w: epoch in a digest", ErrMalformed)
	}
	return l, nil
}

// of returns what the digest says of an origin, nil when it says nothing.
func (d *digest) of(id string) *originDigest {
	at, ok := slices.BinarySearchFunc(d.origins, id, func(o originDigest, id string) int {
		return strings.Compare(o.origin, id)
	})
	if !ok {
		return nil
	}
	return &d.origins[at]
}

func (d *digest) about(id string) *originDigest {
	if od := d.of(id); od != nil {
		return od
	}
	return &originDigest{origin: id}
}

func (d *originDigest) layer(epoch uint64) *layerDigest {
	for i := range d.layers {
		if d.layers[i].epoch == epoch {
			return &d.layers[i]
		}
	}
	return nil
}
