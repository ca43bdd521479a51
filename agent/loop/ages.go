// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"sync"
	"time"
)

// Ages is for how long keys have waited: for a worker, after an error, or because they must not be written yet. The zero value has none. It
// is safe for concurrent use.
type Ages[K comparable] struct {
	mu    sync.Mutex
	since map[K]time.Time
}

// Add says that a key waits, if it does not already.
func (a *Ages[K]) Add(k K) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.since == nil {
		a.since = map[K]time.Time{}
	}
	if _, waits := a.since[k]; !waits {
		a.since[k] = time.Now()
	}
}

// Begin is called before a key is reconciled, and the function that it returns afterwards, with whether it waits still. One that is added
// in between is reconciled again.
func (a *Ages[K]) Begin(k K) (end func(waits bool)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	since, added := a.since[k]
	delete(a.since, k)
	return func(waits bool) {
		a.mu.Lock()
		defer a.mu.Unlock()
		if added && waits {
			a.since[k] = since
		}
	}
}

// Oldest is the longest time that a key has been waiting.
func (a *Ages[K]) Oldest(now time.Time) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	var longest time.Duration
	for _, since := range a.since {
		longest = max(longest, now.Sub(since))
	}
	return longest
}
