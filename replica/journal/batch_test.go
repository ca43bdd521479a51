// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"bytes"
	"slices"
	"testing"
)

func FuzzBatch(f *testing.F) {
	f.Add(encodeBatch([runSize]byte{1}, [][]byte{[]byte("a"), {}, []byte("bc")}))
	f.Fuzz(func(t *testing.T, b []byte) {
		run, ops, err := decodeBatch(b)
		if err != nil {
			return
		}
		again, same, err := decodeBatch(encodeBatch(run, ops))
		if err != nil || again != run || !slices.EqualFunc(ops, same, bytes.Equal) {
			t.Fatalf("%x became %x, %v", ops, same, err)
		}
	})
}
