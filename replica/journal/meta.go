// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
)

// Where bolt keeps its two metas: at the beginning of a page each, behind the page's header.
const (
	metaAt  = 16
	metaSum = 56 // where the checksum is, and how much it is of
)

// checkMetas refuses a file of which one meta is damaged. bolt would go on from the other one, which is a transaction
// older: what was told since would be forgotten, and its numbers given out again.
func checkMetas(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	for page := range int64(2) {
		var meta [metaSum + 8]byte
		if _, err := f.ReadAt(meta[:], page*int64(os.Getpagesize())+metaAt); errors.Is(err, io.EOF) {
			return fmt.Errorf("%w: log.db is cut off", errBroken)
		} else if err != nil {
			return err
		}
		sum := fnv.New64a()
		_, _ = sum.Write(meta[:metaSum])
		if binary.NativeEndian.Uint64(meta[metaSum:]) != sum.Sum64() {
			return fmt.Errorf("%w: log.db: page %d is damaged", errBroken, page)
		}
	}
	return nil
}
