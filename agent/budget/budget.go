// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"encoding/json"
	"sync"
	"time"

	"github.com/roster-mesh/roster/agent/loop"
	"github.com/roster-mesh/roster/syncrules/engine/quota"
)

// Budget is what a loop may write because of each other cluster.
type Budget[K comparable] struct {
	again func(K, time.Duration)

	mu    sync.Mutex
	quota *quota.Quota[K]
}

// New returns a budget that nobody has used. again adds a key to the loop after a time.
func New[K comparable](limits quota.Limits, again func(K, time.Duration)) *Budget[K] {
	return &Budget[K]{again: again, quota: quota.New[K](limits, time.Now())}
}

// Write calls write, which writes the object of a key because of a cluster, and charges the cluster with it. size is how many bytes that
// takes; nil for none. It is asked only when the write need not wait: hundreds that wait look again all the time. If the write must wait
// the error is loop.ErrWaits, and the key is added to the loop again. A write that fails costs nothing, but for one that the API server
// refuses: a member can have it refuse thousands.
func (b *Budget[K]) Write(clusterID string, k K, size func() int, write func() error) error {
	bytes, ok := b.charge(clusterID, k, size)
	if !ok {
		return loop.ErrWaits
	}
	err := write()
	if err != nil && !loop.Refused(err) {
		b.refund(clusterID, bytes)
	}
	return err
}

// StillWaits reports whether a key is in the line of a cluster and may not be written yet: then it is added to the loop again. A loop asks before
// it finds out what would be written, since thousands may wait. A key that turns out to need no write stays in the line until its turn.
func (b *Budget[K]) StillWaits(clusterID string, k K) bool {
	defer b.tell()
	b.mu.Lock()
	defer b.mu.Unlock()
	now, account := time.Now(), quota.AccountOf(clusterID)
	if !b.quota.InLine(k) || b.quota.May(account, k, now) {
		return false
	}
	b.quota.Wait(account, k, now)
	return true
}

// charge reports whether the object of a key may be written now because of a cluster, and charges the cluster with it, of bytes. If
// not, the key waits, and is added to the loop again.
func (b *Budget[K]) charge(clusterID string, k K, size func() int) (bytes int, ok bool) {
	defer b.tell()
	b.mu.Lock()
	defer b.mu.Unlock()
	now, account := time.Now(), quota.AccountOf(clusterID)
	if !b.quota.May(account, k, now) {
		b.quota.Wait(account, k, now)
		return 0, false
	}
	if size != nil {
		bytes = size()
	}
	b.quota.Spend(account, k, int64(bytes), now)
	return bytes, true
}

// refund gives a cluster back what charge took for a write that failed: an outage uses up nothing. The loop has its own back-off for that.
func (b *Budget[K]) refund(clusterID string, bytes int) {
	defer b.tell()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.quota.Refund(quota.AccountOf(clusterID), int64(bytes), time.Now())
}

// Settle says that nothing has to be written for a key: it waits no more. It is called for every key that was reconciled,
// unless Write has just returned loop.ErrWaits for it, or StillWaits true.
func (b *Budget[K]) Settle(k K) {
	defer b.tell()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.quota.Drop(k)
}

// Waiting is how many keys wait.
func (b *Budget[K]) Waiting() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.quota.Waiting()
}

// WaitingOf is how many keys wait because of each cluster.
func (b *Budget[K]) WaitingOf() map[string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	of := map[string]int{}
	for account, n := range b.quota.WaitingOf() {
		of[string(account)] = n
	}
	return of
}

// SizeOf is how many bytes an object takes as JSON.
func SizeOf(obj any) int {
	data, err := json.Marshal(obj)
	if err != nil {
		return 0 // no object of the API is like that
	}
	return len(data)
}

// tell adds the keys to the loop whose turn comes next. It calls the loop without the lock.
func (b *Budget[K]) tell() {
	for {
		b.mu.Lock()
		k, after, ok := b.quota.Next(time.Now())
		b.mu.Unlock()
		if !ok {
			return
		}
		b.again(k, after)
	}
}
