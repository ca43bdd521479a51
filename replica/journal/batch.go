// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// A command of the log is a batch: its checksum, the run that appended it, and the operations,
// each behind its length.
const (
	sumSize = 4
	runSize = 8
)

// errBroken marks what is on disk and cannot be used.
var errBroken = errors.New("data directory cannot be read")

func encodeBatch(run [runSize]byte, ops [][]byte) []byte {
	size := sumSize + runSize
	for _, op := range ops {
		size += binary.MaxVarintLen32 + len(op)
	}
	b := make([]byte, sumSize, size)
	b = append(b, run[:]...)
	for _, op := range ops {
		b = binary.AppendUvarint(b, uint64(len(op)))
		b = append(b, op...)
	}
	binary.BigEndian.PutUint32(b, checksum(b[sumSize:]))
	return b
}

// decodeBatch returns operations that alias b.
func decodeBatch(b []byte) (run [runSize]byte, ops [][]byte, err error) {
	if len(b) < sumSize+runSize || binary.BigEndian.Uint32(b) != checksum(b[sumSize:]) {
		return run, nil, fmt.Errorf("%w: checksum of a command", errBroken)
	}
	rest := b[sumSize:]
	rest = rest[copy(run[:], rest):]
	for len(rest) > 0 {
		size, n := binary.Uvarint(rest)
		if n <= 0 || size > uint64(len(rest)-n) {
			return run, nil, fmt.Errorf("%w: length of an operation", errBroken)
		}
		ops = append(ops, rest[n:n+int(size):n+int(size)])
		rest = rest[n+int(size):]
	}
	return run, ops, nil
}

func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }
