// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/hashicorp/go-msgpack/v2/codec"

	"github.com/roster-mesh/roster/mesh/trust"
)

// A packet connection carries frames: one byte of kind, three bytes of length
// (big endian), payload.
const (
	frameIdle     byte = iota // empty: the connection is alive
	framePacket               // a memberlist packet
	frameMessage              // one replicated message, as its origin signed it
	frameAnnounce             // summary of the sender's digest: if yours differs, say so in a while
	frameDigest               // a byte, and what a summary is the hash of: if yours differs, say so and pull
	frameDiffer               // summary of the sender's digest, which differs: if it still does, pull
	frameRemoved              // the last one: the message by which your key was removed
)

const (
	frameHeader = 4
	// maxFrame bounds what one frame makes its receiver allocate. Longer
	// messages are announced and pulled.
	maxFrame = 64 << 10
	// maxDigest bounds the digest that a peer sends: with 4096 origins this
	// leaves 512 bytes for each.
	maxDigest = 2 << 20
)

var (
	// errOversized: a peer announced more bytes than the bound of that place.
	errOversized = errors.New("oversized")
	// errMalformed: a peer's bytes cannot be decoded.
	errMalformed = errors.New("malformed")
	// errForged: what a peer says of a member cannot be true.
	errForged = errors.New("forged")
)

// appendFrame appends the encoding of a frame; the payload must fit maxFrame.
func appendFrame(dst []byte, kind byte, payload []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(kind)<<24|uint32(len(payload)))
	return append(dst, payload...)
}

// readFrame reads one frame. It allocates no more than maxFrame, and only
// after the length was checked. The payload is the caller's.
func readFrame(r *bufio.Reader) (kind byte, payload []byte, err error) {
	var header [frameHeader]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return 0, nil, err
	}
	size := binary.BigEndian.Uint32(header[:]) & 0xffffff
	if size > maxFrame {
		return 0, nil, fmt.Errorf("frame of %d bytes: %w", size, errOversized)
	}
	payload = make([]byte, size)
	if _, err := io.ReadFull(r, payload); err != nil {
		return 0, nil, err
	}
	return header[0], payload, nil
}

// contentsSize is how much of a digest tells the contents: a field of 32 bytes
// with its tag and length (see State.Digest).
const contentsSize = 34

// summary stands for the contents that a digest tells of. An announcement
// carries it. What else a digest says (how complete its sender knows itself to
// be) may differ between members that hold the same.
type summary [sha256.Size]byte

func summarize(digest []byte) summary { return sha256.Sum256(contents(digest)) }

// contents is the part of a digest that is the same for members that hold the same.
func contents(digest []byte) []byte { return digest[:min(len(digest), contentsSize)] }

func decodeSummary(payload []byte) (summary, error) {
	if len(payload) != sha256.Size {
		return summary{}, errMalformed
	}
	return summary(payload), nil
}

// memberlist's message types. The library keeps them private, but they are its
// wire format and may only grow.
const (
	mlPing         = 0
	mlIndirectPing = 1
	mlAck          = 2
	mlSuspect      = 3
	mlAlive        = 4
	mlDead         = 5
	mlPushPull     = 6
	mlCompound     = 7
	mlUser         = 8
	mlNack         = 11
	mlCRC          = 12
	mlError        = 13

	mlCRCSize = 5 // type and checksum
	// maxMembership is more than any message about a member: two names and an
	// address. Without it memberlist's two queues of 1024 messages could hold
	// 128 MiB.
	maxMembership = 1 << 10
)

// splitPacket takes a memberlist packet apart into its messages, which keep
// their type byte. It accepts what a mesh sends and no more: no compression
// (64 KiB could unpack to 40 MiB), no labels, no nesting. The checksum is not
// verified, since packets arrive over TLS.
//
// Parts alias buf.
func splitPacket(buf []byte) (parts [][]byte, err error) {
	if len(buf) > mlCRCSize && buf[0] == mlCRC {
		buf = buf[mlCRCSize:]
	}
	if len(buf) == 0 || buf[0] != mlCompound {
		return checkParts([][]byte{buf})
	}
	if len(buf) < 2 {
		return nil, errMalformed
	}
	count := int(buf[1])
	sizes, rest := buf[2:], buf[2:]
	if len(rest) < 2*count {
		return nil, errMalformed
	}
	rest = rest[2*count:]
	for i := range count {
		size := int(binary.BigEndian.Uint16(sizes[2*i:]))
		if len(rest) < size {
			return nil, errMalformed
		}
		parts = append(parts, rest[:size:size])
		rest = rest[size:]
	}
	return checkParts(parts)
}

func checkParts(parts [][]byte) ([][]byte, error) {
	for _, part := range parts {
		if len(part) < 2 {
			return nil, errMalformed
		}
		switch part[0] {
		case mlUser:
		case mlPing, mlIndirectPing, mlAck, mlSuspect, mlAlive, mlDead, mlNack:
			if len(part) > maxMembership {
				return nil, errOversized
			}
		default:
			return nil, errMalformed
		}
	}
	return parts, nil
}

// Only its own member raises an incarnation, by one, to refute what others say
// of it. So a number near 2^32, which no refutation could exceed, is forged.
const (
	// maxAccused is the highest incarnation of which a member may be told that
	// it is suspected or dead, or its own member that it is alive: all that it
	// answers by exceeding them.
	maxAccused = 1 << 30
	// maxIncarnation is thus what a member can reach, and others believe.
	maxIncarnation = maxAccused + 1
)

// believable says whether a membership message of that type can be true.
func believable(self string, kind byte, node string, incarnation uint32) bool {
	if kind == mlAlive && node != self {
		return incarnation <= maxIncarnation
	}
	return incarnation <= maxAccused
}

// checkClaim refuses the parts of a packet that are not believable.
func checkClaim(self string, part []byte) error {
	switch part[0] {
	case mlSuspect, mlAlive, mlDead:
	default:
		return nil
	}
	var claim struct {
		Incarnation uint32
		Node        string
	}
	if err := codec.NewDecoderBytes(part[1:], &codec.MsgpackHandle{}).Decode(&claim); err != nil {
		return errMalformed
	}
	if !believable(self, part[0], claim.Node, claim.Incarnation) {
		return errForged
	}
	return nil
}

// stateVersion opens the user state of a push/pull: version, length of the
// sender's clusterID, clusterID, digest.
const stateVersion = 1

func encodeState(id string, digest []byte) []byte {
	b := make([]byte, 0, 2+len(id)+len(digest))
	b = append(b, stateVersion, byte(len(id)))
	b = append(b, id...)
	return append(b, digest...)
}

// decodeState is the inverse of encodeState. The id is what the sender claims.
func decodeState(b []byte) (id string, digest []byte, err error) {
	if len(b) < 2 || b[0] != stateVersion || len(b) < 2+int(b[1]) {
		return "", nil, errMalformed
	}
	id, digest = string(b[2:2+int(b[1])]), b[2+int(b[1]):]
	if !trust.ValidID(id) {
		return "", nil, errMalformed
	}
	if len(digest) > maxDigest {
		return "", nil, errOversized
	}
	return id, digest, nil
}
