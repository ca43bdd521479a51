// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"

	"github.com/hashicorp/go-msgpack/v2/codec"

	"github.com/roster-mesh/roster/mesh/trust"
)

func FuzzFrame(f *testing.F) {
	f.Add(appendFrame(nil, frameMessage, []byte("hello")))
	f.Add(appendFrame(appendFrame(nil, frameIdle, nil), framePacket, make([]byte, 100)))
	f.Add([]byte{1, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, data []byte) {
		r := bufio.NewReader(bytes.NewReader(data))
		var again []byte
		for {
			kind, payload, err := readFrame(r)
			if err != nil {
				break
			}
			if len(payload) > maxFrame {
				t.Fatalf("frame of %d bytes", len(payload))
			}
			again = appendFrame(again, kind, payload)
		}
		if !bytes.HasPrefix(data, again) {
			t.Fatal("frames do not encode to what they were decoded from")
		}
	})
}

func compound(parts ...[]byte) []byte {
	b := []byte{mlCompound, byte(len(parts))}
	for _, p := range parts {
		b = binary.BigEndian.AppendUint16(b, uint16(len(p)))
	}
	return append(b, bytes.Join(parts, nil)...)
}

func FuzzSplitPacket(f *testing.F) {
	f.Add([]byte{mlPing, 0x80})
	f.Add(compound([]byte{mlPing, 0x80}, []byte{mlUser, frameMessage, 'x'}))
	f.Add(append([]byte{mlCRC, 0, 0, 0, 0}, compound([]byte{mlSuspect, 0x80})...))
	f.Add(compound(compound([]byte{mlPing, 0x80})))
	f.Add([]byte{9, 0x80, 0x80})
	f.Fuzz(func(t *testing.T, data []byte) {
		parts, err := splitPacket(data)
		if err != nil {
			return
		}
		total := 0
		for _, part := range parts {
			total += len(part)
			if len(part) < 2 || part[0] == mlCompound || part[0] == mlCRC || part[0] == mlPushPull || part[0] == 9 || part[0] == 10 {
				t.Fatalf("part %x got through", part)
			}
			if part[0] != mlUser && len(part) > maxMembership {
				t.Fatalf("membership message of %d bytes", len(part))
			}
		}
		if total > len(data) {
			t.Fatalf("%d bytes of parts from %d bytes", total, len(data))
		}
	})
}

func TestSplitPacketRefuses(t *testing.T) {
	for name, data := range map[string][]byte{
		"nothing":       nil,
		"nested":        compound(compound([]byte{mlPing, 0x80})),
		"compressed":    {9, 0x80, 0x80},
		"encrypted":     {10, 0x80, 0x80},
		"labelled":      {244, 1, 'x', mlPing, 0x80},
		"double CRC":    {mlCRC, 0, 0, 0, 0, mlCRC, 0, 0, 0, 0, mlPing, 0x80},
		"short lengths": {mlCompound, 2, 0, 1},
		"short part":    {mlCompound, 1, 0, 9, mlPing},
		"empty part":    compound([]byte{}),
		"unknown":       {99, 1, 2},
	} {
		if _, err := splitPacket(data); !errors.Is(err, errMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := splitPacket(append([]byte{mlAlive}, make([]byte, maxMembership)...)); !errors.Is(err, errOversized) {
		t.Errorf("large alive message: %v", err)
	}
}

func FuzzPushPullState(f *testing.F) {
	f.Add(encodeState("some-cluster", []byte("digest")))
	f.Add([]byte{stateVersion, 200, 'x'})
	f.Fuzz(func(t *testing.T, data []byte) {
		id, digest, err := decodeState(data)
		if err != nil {
			return
		}
		if !trust.ValidID(id) {
			t.Fatalf("id %q", id)
		}
		if !bytes.Equal(encodeState(id, digest), data) {
			t.Fatal("state does not encode to what it was decoded from")
		}
	})
}

func pushPull(t testing.TB, header any) []byte {
	b := bytes.NewBuffer([]byte{mlPushPull})
	if err := codec.NewEncoder(b, &codec.MsgpackHandle{}).Encode(header); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func FuzzStream(f *testing.F) {
	f.Add(pushPull(f, pushPullHeader{Nodes: 3, UserStateLen: 10, Join: true}))
	f.Add(pushPull(f, pushPullHeader{Nodes: 1 << 20}))
	f.Add([]byte{mlPing, 0x80})
	f.Add([]byte{9, 0x82})
	f.Fuzz(func(t *testing.T, data []byte) {
		source := bytes.NewReader(data)
		head, _, err := inspectStream(source)
		if err != nil {
			return
		}
		rest, _ := io.ReadAll(source)
		if !bytes.Equal(append(head, rest...), data) {
			t.Fatal("bytes were lost or changed by looking at them")
		}
		if head[0] == mlPushPull {
			var header pushPullHeader
			if err := codec.NewDecoder(bytes.NewReader(head[1:]), &codec.MsgpackHandle{}).Decode(&header); err != nil {
				t.Fatal(err)
			}
			if header.Nodes < 0 || header.Nodes > maxStreamNodes || header.UserStateLen < 0 || header.UserStateLen > maxDigest {
				t.Fatalf("header %+v got through", header)
			}
		}
	})
}

func FuzzSummary(f *testing.F) {
	f.Add(make([]byte, 32))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		if s, err := decodeSummary(data); err == nil && !bytes.Equal(s[:], data) {
			t.Fatal("summary changed")
		}
	})
}

func TestStreamRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		data []byte
		want error
	}{
		"too many members": {pushPull(t, pushPullHeader{Nodes: maxStreamNodes + 1}), errOversized},
		"too much state":   {pushPull(t, pushPullHeader{UserStateLen: maxDigest + 1}), errOversized},
		"negative":         {pushPull(t, pushPullHeader{Nodes: -1}), errMalformed},
		"no header":        {append([]byte{mlPushPull}, bytes.Repeat([]byte{0xc1}, 200)...), errMalformed},
		"endless header":   {append([]byte{mlPushPull, 0xdf, 0xff, 0xff, 0xff, 0xff}, bytes.Repeat([]byte{0xa1, 'x'}, 200)...), errMalformed},
		"user message":     {[]byte{mlUser, 1, 2}, errMalformed},
		"compressed":       {[]byte{9, 1, 2}, errMalformed},
	} {
		if _, _, err := inspectStream(bytes.NewReader(c.data)); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
