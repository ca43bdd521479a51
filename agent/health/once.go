// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import "sync"

// Once remembers the last complaint about each object, so that it is logged once and not at each change of the object.
// The zero value is ready.
type Once struct {
	mu   sync.Mutex
	last map[string]string
}

// maxRemembered bounds what is remembered; beyond it, all is forgotten and may be logged again.
const maxRemembered = 1000

// First says that text was not the last complaint about the object with that UID.
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
