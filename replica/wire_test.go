// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// samples are one message of each shape, the same at every run.
func samples(t testing.TB) map[string][]byte {
	a := newReplica(t, "a", 3)
	publish(t, a, Key{KindRule, "r"}, Live, "payload")
	samples := map[string][]byte{
		"cluster":   publish(t, a, Key{KindCluster, "a"}, Live, "spec")[0],
		"withdrawn": publish(t, a, Key{KindRule, "r"}, Withdrawn, "payload")[0],
		"tombstone": publish(t, a, Key{KindFeature, "f"}, Live, "")[0],
		"head":      a.Complete()[0],
	}
	samples["tombstone"] = publish(t, a, Key{KindFeature, "f"}, Deleted, "")[0]
	merge(t, a, samples["cluster"])
	b := newReplica(t, "b", 1, "a")
	merge(t, b, samples["withdrawn"])
	publish(t, b, Key{KindRule, "r"}, Live, "x")
	samples["digest"] = a.Digest()
	samples["digest-of-two"] = b.Digest()
	removal := removalOf(t, a, "c", 1)
	merge(t, b, removal)
	samples["removal"], samples["digest-with-removal"] = removal, b.Digest()
	return samples
}

// The wire format is frozen: a change to these bytes locks out every older member. Where
// it is meant, ROSTER_GOLDEN=write renews the files.
func TestGolden(t *testing.T) {
	for name, got := range samples(t) {
		file := filepath.Join("testdata", "golden", name+".hex")
		text := hex.EncodeToString(got) + "\n"
		if os.Getenv("ROSTER_GOLDEN") == "write" {
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if text != string(want) {
			t.Errorf("%s: encoded as\n%swant\n%s", name, text, want)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	good := samples(t)["withdrawn"]
	m, err := decodeMessage(good)
	if err != nil {
		t.Fatal(err)
	}
	core := encodeEntry(&m.entry.Entry)
	wrap := func(core []byte) []byte { return encodeMessage(messageEntry, core, m.entry.claim, m.signature) }
	if !bytes.Equal(wrap(core), good) {
		t.Fatal("encoding what was decoded gives other bytes")
	}
	entry := func(change func(*Entry)) []byte {
		e := m.entry.Entry
		change(&e)
		return wrap(encodeEntry(&e))
	}
	longTag := append([]byte{0x8a, 0x00}, good[1:]...)
	tests := map[string]struct {
		msg  []byte
		want error
	}{
		"empty":               {nil, ErrMalformed},
		"trailing byte":       {append(bytes.Clone(good), 0), ErrMalformed},
		"cut off":             {good[:len(good)-1], ErrMalformed},
		"twice":               {append(bytes.Clone(good), good...), ErrMalformed},
		"unknown field":       {protowire.AppendVarint(protowire.AppendTag(bytes.Clone(good), 9, protowire.VarintType), 1), ErrMalformed},
		"long tag":            {longTag, ErrMalformed},
		"over the bound":      {make([]byte, MaxMessage+1), ErrTooLarge},
		"repeated in core":    {wrap(append(bytes.Clone(core), core...)), ErrMalformed},
		"unknown in core":     {wrap(appendUint(bytes.Clone(core), 15, 1)), ErrMalformed},
		"zero written out":    {wrap(append(protowire.AppendTag(nil, entryKind, protowire.VarintType), 0)), ErrMalformed},
		"long varint":         {wrap(append(protowire.AppendTag(nil, entryKind, protowire.VarintType), 0x81, 0)), ErrMalformed},
		"no kind":             {entry(func(e *Entry) { e.Key.Kind = 0 }), ErrMalformed},
		"kind out of range":   {entry(func(e *Entry) { e.Key.Kind = maxKind + 1 }), ErrMalformed},
		"no name":             {entry(func(e *Entry) { e.Key.Name = "" }), ErrMalformed},
		"long name":           {entry(func(e *Entry) { e.Key.Name = strings.Repeat("x", MaxName+1) }), ErrTooLarge},
		"newline in name":     {entry(func(e *Entry) { e.Key.Name = "a\nb" }), ErrMalformed},
		"no origin":           {entry(func(e *Entry) { e.Origin = "" }), ErrMalformed},
		"long origin":         {entry(func(e *Entry) { e.Origin = strings.Repeat("x", MaxOrigin+1) }), ErrTooLarge},
		"slash in origin":     {entry(func(e *Entry) { e.Origin = "a/b" }), ErrMalformed},
		"dot":                 {entry(func(e *Entry) { e.Origin = "." }), ErrMalformed},
		"dots in origin":      {entry(func(e *Entry) { e.Origin = "a..b" }), ErrMalformed},
		"dash at the end":     {entry(func(e *Entry) { e.Origin = "a-" }), ErrMalformed},
		"upper case origin":   {entry(func(e *Entry) { e.Origin = "aB" }), ErrMalformed},
		"underscore":          {entry(func(e *Entry) { e.Origin = "a_b" }), ErrMalformed},
		"epoch 0":             {entry(func(e *Entry) { e.Epoch = 0 }), ErrMalformed},
		"huge epoch":          {entry(func(e *Entry) { e.Epoch = maxNumber + 1 }), ErrMalformed},
		"sequence 0":          {entry(func(e *Entry) { e.Sequence = 0 }), ErrMalformed},
		"no status":           {entry(func(e *Entry) { e.Status = 0 }), ErrMalformed},
		"status out of range": {entry(func(e *Entry) { e.Status = Deleted + 1 }), ErrMalformed},
		"tombstone payload":   {entry(func(e *Entry) { e.Status = Deleted }), ErrMalformed},
		"rule with a key":     {entry(func(e *Entry) { e.PublicKey = make([]byte, 32) }), ErrMalformed},
		"cluster, no key":     {entry(func(e *Entry) { e.Key = Key{KindCluster, "a"} }), ErrMalformed},
		"long payload":        {entry(func(e *Entry) { e.Payload = make([]byte, MaxPayload+1) }), ErrTooLarge},
	}
	for name, test := range tests {
		if _, err := decodeMessage(test.msg); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", name, err, test.want)
		}
	}
}

func TestDecodeDigestRefuses(t *testing.T) {
	good := samples(t)["digest-of-two"]
	d, err := decodeDigest(good)
	if err != nil || !bytes.Equal(d.encode(), good) {
		t.Fatalf("the sample decodes to other bytes, %v", err)
	}
	change := func(change func(*digest)) []byte {
		d, err := decodeDigest(good)
		if err != nil {
			t.Fatal(err)
		}
		change(&d)
		d.hash = d.contents()
		return d.encode()
	}
	wrongHash := bytes.Clone(good)
	wrongHash[2] ^= 1
	tests := map[string]struct {
		digest []byte
		want   error
	}{
		"empty":            {nil, ErrMalformed},
		"trailing byte":    {append(bytes.Clone(good), 0), ErrMalformed},
		"over the bound":   {make([]byte, maxDigest+1), ErrTooLarge},
		"other hash":       {wrongHash, ErrMalformed},
		"same origin":      {change(func(d *digest) { d.origins[1] = d.origins[0] }), ErrMalformed},
		"origin unsorted":  {change(func(d *digest) { d.origins[0].origin = "z" }), ErrMalformed},
		"no epochs":        {change(func(d *digest) { d.origins[0].layers = nil }), ErrMalformed},
		"same epoch":       {change(func(d *digest) { l := &d.origins[0].layers; *l = append(*l, (*l)[0]) }), ErrMalformed},
		"frontier too far": {change(func(d *digest) { d.origins[0].layers[0].frontier = maxNumber + 1 }), ErrMalformed},
		"epoch 0":          {change(func(d *digest) { d.origins[0].layers[0].epoch = 0 }), ErrMalformed},
	}
	for name, test := range tests {
		if _, err := decodeDigest(test.digest); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", name, err, test.want)
		}
	}
}

// What decodes is the one encoding of what it decodes to.
func FuzzDecodeEntry(f *testing.F) {
	for _, sample := range samples(f) {
		f.Add(sample)
		if m, err := decodeMessage(sample); err == nil && m.entry != nil {
			f.Add(encodeEntry(&m.entry.Entry))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := decodeEntry(b)
		if err == nil && !bytes.Equal(encodeEntry(&e), b) {
			t.Errorf("%x decodes to %+v, which is encoded otherwise", b, e)
		}
	})
}

func FuzzDecodeHead(f *testing.F) {
	for _, sample := range samples(f) {
		f.Add(sample)
		if m, err := decodeMessage(sample); err == nil && m.head != nil {
			f.Add(encodeHead(&m.head.Head))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := decodeHead(b)
		if err == nil && !bytes.Equal(encodeHead(&h), b) {
			t.Errorf("%x decodes to %+v, which is encoded otherwise", b, h)
		}
	})
}

func FuzzDecodeMessage(f *testing.F) {
	for _, sample := range samples(f) {
		f.Add(sample)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decodeMessage(b)
		if err != nil {
			return
		}
		var again []byte
		switch {
		case m.removal != nil:
			again = appendBytes(appendBytes(nil, messageRemoval, encodeRemoval(&m.removal.Removal)), messageRemovalSignature, m.removal.signature)
		case m.entry != nil:
			again = encodeMessage(messageEntry, encodeEntry(&m.entry.Entry), m.entry.claim, m.signature)
		default:
			again = encodeMessage(messageHead, encodeHead(&m.head.Head), m.head.Set, m.signature)
		}
		if !bytes.Equal(again, b) {
			t.Errorf("%x is not the one encoding of its message", b)
		}
	})
}

func FuzzDecodeDigest(f *testing.F) {
	for _, sample := range samples(f) {
		f.Add(sample)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := decodeDigest(b)
		if err == nil && !bytes.Equal(d.encode(), b) {
			t.Errorf("%x is not the one encoding of its digest", b)
		}
	})
}

// A signed message may say anything: nothing that an origin signs breaks a state.
func FuzzMergeSigned(f *testing.F) {
	f.Add([]byte{1, 1, 1, 0, 1, 2, 2, 0})
	f.Add([]byte{1, 9, 1, 4, 2, 1, 1, 0, 3, 1, 1, 4, 3, 0, 0, 5})
	f.Fuzz(func(t *testing.T, script []byte) {
		s := newState("observer", Limits{Entries: 4, Bytes: 4096})
		for ; len(script) >= 4; script = script[4:] {
			epoch, sequence, name, what := uint64(script[0])+1, uint64(script[1])+1, rule(string('a'+rune(script[2]%8))), script[3]
			if what&4 != 0 {
				h := Head{Origin: "a", Epoch: epoch, Sequence: sequence, Complete: what&1 != 0}
				if h.Complete {
					h.Announced = sequence / 2
				}
				h.Set[0] = what &^ 7
				deliver(t, s, signHead(testKey("a"), h).msg)
				continue
			}
			e := Entry{Key: name, Origin: "a", Epoch: epoch, Sequence: sequence, Status: Status(what%3) + 1}
			r := signEntry(testKey("a"), e, func(id [32]byte) [32]byte {
				var only set
				only.add(id)
				return only.sum()
			})
			if _, err := s.mergeEntry(r); err != nil && !errors.Is(err, ErrFull) {
				t.Fatal(err)
			}
			checkInvariants(t, s)
		}
		d := s.digest()
		decoded, err := decodeDigest(d.encode())
		if err != nil {
			t.Fatal(err)
		}
		other := newState("other", s.limits)
		for _, msg := range append(s.delta(&decoded), s.delta(&digest{})...) {
			if m, err := decodeMessage(msg); err != nil {
				t.Fatal(err)
			} else if m.head != nil {
				other.mergeHead(m.head)
				other.checkDelta(m.head)
			} else if _, err := other.mergeEntry(m.entry); err != nil && !errors.Is(err, ErrFull) {
				t.Fatal(err)
			}
			checkInvariants(t, other)
		}
	})
}
