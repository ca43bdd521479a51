// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/roster-mesh/roster/replica/lthash"
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
		"later, descending":   {wrap(appendUint(appendUint(bytes.Clone(core), 16, 1), 15, 1)), ErrMalformed},
		"later, twice":        {wrap(appendUint(appendUint(bytes.Clone(core), 15, 1), 15, 1)), ErrMalformed},
		"later, cut off":      {wrap(protowire.AppendTag(bytes.Clone(core), 15, protowire.VarintType)), ErrMalformed},
		"later, a group":      {wrap(protowire.AppendTag(bytes.Clone(core), 15, protowire.StartGroupType)), ErrMalformed},
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

// What a later version adds behind the fields that are known here is signed, kept and passed on, and else ignored.
func TestLaterVersions(t *testing.T) {
	later := func(b []byte) []byte {
		b = appendBytes(appendUint(bytes.Clone(b), 20, 7), 21, []byte("later"))
		return protowire.AppendFixed64(protowire.AppendTag(b, 30, protowire.Fixed64Type), 1)
	}
	key := testKey("a")
	sign := func(field protowire.Number, domain string, core []byte, claim [32]byte) []byte {
		return encodeMessage(field, core, claim, ed25519.Sign(key, signable(domain, sha256.Sum256(core), claim)))
	}
	e := Entry{Key: rule("p"), Origin: "a", Epoch: 1, Sequence: 1, Status: Live, Payload: []byte("x")}
	core := later(encodeEntry(&e))
	var one lthash.Set
	one.Add(entryID(core))
	entry := sign(messageEntry, entryDomain, core, one.Sum())
	head := sign(messageHead, headDomain, later(encodeHead(&Head{Origin: "a", Epoch: 1, Sequence: 1, Complete: true, Announced: 1})), one.Sum())
	gone := later(encodeRemoval(&Removal{ClusterID: "z", PublicKey: keyOf("z"), By: "a", ByKey: keyOf("a")}))
	removal := appendBytes(appendBytes(nil, messageRemoval, gone), messageRemovalSignature, ed25519.Sign(key, removalSigned(gone)))

	b, c := newReplica(t, "b", 1, "a"), newReplica(t, "c", 1, "a", "b")
	merge(t, b, entry, head, removal)
	if got := payloads(b, "a"); !slices.Equal(got, []string{"p=x"}) || !b.Progress("a").Complete || len(b.Removals()) != 1 {
		t.Fatalf("%v, %+v, %v", got, b.Progress("a"), b.Removals())
	}
	var sent [][]byte
	parts := reader{rest: b.Digest()}
	digest := appendBytes(nil, digestHash, parts.bytes(digestHash, 32))
	for o := parts.bytes(digestOrigin, maxDigest); o != nil; o = parts.bytes(digestOrigin, maxDigest) {
		digest = appendBytes(digest, digestOrigin, later(o))
	}
	digest = later(append(digest, parts.rest...))
	was, err := decodeDigest(b.Digest())
	is, err2 := decodeDigest(digest)
	if err != nil || err2 != nil || !reflect.DeepEqual(was, is) {
		t.Fatalf("%v, %v: %+v became %+v", err, err2, was, is)
	}
	if err := b.Delta(later(c.Digest()), func(msg []byte) error { sent = append(sent, msg); return nil }); err != nil {
		t.Fatal(err)
	}
	merge(t, c, sent...)
	if !bytes.Equal(b.Digest()[:34], c.Digest()[:34]) || !slices.ContainsFunc(sent, func(msg []byte) bool { return bytes.Equal(msg, entry) }) {
		t.Errorf("it is not passed on as it is: %q", sent)
	}
	restored := &Replica{self: "b", state: newState("b", Limits{})}
	if err := restored.Restore(bytes.NewReader(snapshotOf(t, b))); err != nil || len(payloads(restored, "a")) != 1 {
		t.Errorf("from the disk: %v, %v", payloads(restored, "a"), err)
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
		e, _, err := decodeEntry(b)
		if err == nil && !bytes.HasPrefix(b, encodeEntry(&e)) {
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
		if err == nil && !bytes.HasPrefix(b, encodeHead(&h)) {
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
		parts := reader{rest: b}
		var core, again, whole []byte
		switch {
		case m.removal != nil:
			core, again = parts.bytes(messageRemoval, maxRemoval), encodeRemoval(&m.removal.Removal)
			whole = appendBytes(appendBytes(nil, messageRemoval, core), messageRemovalSignature, m.removal.signature)
		case m.entry != nil:
			core, again = parts.bytes(messageEntry, MaxMessage), encodeEntry(&m.entry.Entry)
			whole = encodeMessage(messageEntry, core, m.entry.claim, m.signature)
		default:
			core, again = parts.bytes(messageHead, MaxMessage), encodeHead(&m.head.Head)
			whole = encodeMessage(messageHead, core, m.head.Set, m.signature)
		}
		if !bytes.Equal(whole, b) || !bytes.HasPrefix(core, again) {
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
		if err != nil {
			return
		}
		again, err := decodeDigest(d.encode())
		if short := len(d.encode()) < len(b); err != nil || !reflect.DeepEqual(again, d) || !short && !bytes.Equal(d.encode(), b) {
			t.Errorf("%x is not the one encoding of its digest: %v", b, err)
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
				var only lthash.Set
				only.Add(id)
				return only.Sum()
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
