// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"encoding/json"
	"net/http"
	"strings"
)

// event is a line of a watch.
type event struct {
	Type   string         `json:"type"`
	Object map[string]any `json:"object"`
}

// mostEvents is how many a watch may be behind.
const mostEvents = 1000

// watch sends the objects of a kind, and then what becomes of them, until the client goes.
func (s *Server) watch(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("sendInitialEvents") == "true" {
		status(w, http.StatusUnprocessableEntity, "Invalid", "lists are not streamed here")
		return
	}
	events := make(chan event, mostEvents)
	s.mu.Lock()
	for path, u := range s.objects {
		if strings.HasPrefix(path, r.URL.Path+"/") {
			events <- event{"ADDED", u.Object}
		}
	}
	s.watchers[events] = r.URL.Path
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watchers, events)
	}()
	w.Header().Set("Content-Type", "application/json")
	lines, flush := json.NewEncoder(w), http.NewResponseController(w)
	for {
		_ = flush.Flush() // where it cannot, the client does not see the event, and the test says so
		select {
		case <-r.Context().Done():
			return
		case e := <-events:
			if lines.Encode(e) != nil {
				return
			}
		}
	}
}
