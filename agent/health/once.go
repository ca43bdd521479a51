// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import "sync"

// Once remembers the last warning about each object, so that it is logged once and not at each change of the object.
// The zero value is ready to use.
type Once struct {
	mu   sync.Mutex
	last map[string]string
}

// maxRemembered bounds the memory. Beyond it everything is forgotten, and may be logged again.
const maxRemembered = 1000

// First reports whether text differs from the last warning about the object with that UID, and remembers it.
func (o *Once) First(uid, text string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.last[uid] == text {
		return false
	}
	if o.last == nil || len(o.last) >= maxRemembered {
		o.last = map[string]string{}
	}
	o.last[uid] = text
	return true
}
