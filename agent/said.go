// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import "sync"

// said remembers the last complaint about each object, so that it is said once and not at each change of the object.
type said struct {
	mu   sync.Mutex
	last map[string]string
}

// maxSaid bounds what is remembered; beyond it, it is forgotten and may be said again.
const maxSaid = 1000

// first says that this was not the last complaint about the object.
func (s *said) first(uid, text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last[uid] == text {
		return false
	}
	if s.last == nil || len(s.last) >= maxSaid {
		s.last = map[string]string{}
	}
	s.last[uid] = text
	return true
}
