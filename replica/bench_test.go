// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"fmt"
	"testing"
)

const (
	benchOrigins = 500
	benchEntries = 20
)

// benchGroup is the messages of a group of 500 origins with 20 entries each.
func benchGroup(b *testing.B) (msgs [][]byte, ids []string) {
	for i := range benchOrigins {
		id := fmt.Sprintf("3f0a54a5-5c04-4a40-8c5e-%012d", i)
		ids = append(ids, id)
		r := newReplica(b, id, 1)
		for n := range benchEntries {
			msgs = append(msgs, publish(b, r, rule(fmt.Sprintf("rule-%d", n)), Live, "a payload of a few bytes")...)
		}
		msgs = append(msgs, r.Complete()...)
	}
	return msgs, ids
}

func mergeAll(b *testing.B, r *Replica, msgs [][]byte) {
	for _, msg := range msgs {
		if _, _, err := r.Merge(msg, ""); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkMerge is one message, signature check included, into a replica that fills up to
// 500 origins × 20 entries.
func BenchmarkMerge(b *testing.B) {
	msgs, ids := benchGroup(b)
	var r *Replica
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		if i%len(msgs) == 0 {
			b.StopTimer()
			r = newReplica(b, "self", 1, ids...)
			b.StartTimer()
		}
		mergeAll(b, r, msgs[i%len(msgs):][:1])
	}
}

// BenchmarkMergeKnown is what most gossip brings.
func BenchmarkMergeKnown(b *testing.B) {
	msgs, ids := benchGroup(b)
	r := newReplica(b, "self", 1, ids...)
	mergeAll(b, r, msgs)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		mergeAll(b, r, msgs[i/benchEntries*(benchEntries+1)%len(msgs):][:1])
	}
}

// BenchmarkDigest is a digest after one change.
func BenchmarkDigest(b *testing.B) {
	msgs, ids := benchGroup(b)
	r := newReplica(b, "self", 1, ids...)
	mergeAll(b, r, msgs)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		publish(b, r, rule("own"), Live, fmt.Sprint(i))
		b.SetBytes(int64(len(r.Digest())))
	}
}

// BenchmarkDelta is everything for a newcomer, and the exchange of two that are equal but
// for one entry.
func BenchmarkDelta(b *testing.B) {
	msgs, ids := benchGroup(b)
	r, other := newReplica(b, "self", 1, ids...), newReplica(b, "other", 1, ids...)
	mergeAll(b, r, msgs)
	mergeAll(b, other, msgs)
	publish(b, r, rule("own"), Live, "x")
	empty, equal := newReplica(b, "empty", 1).Digest(), other.Digest()
	for name, digest := range map[string][]byte{"newcomer": empty, "one": equal} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				size := 0
				err := r.Delta(digest, func(msg []byte) error { size += len(msg); return nil })
				if err != nil {
					b.Fatal(err)
				}
				b.SetBytes(int64(size))
			}
		})
	}
}
