// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"
)

const (
	// mostStreams are open at a time: one for each tab of the browser. With others there are more of those.
	mostStreams, mostOfOthers = 32, 128
	// quiet is after how long without news a stream says that it is still there.
	quiet = 30 * time.Second
	// sendTimeout bounds how long a browser may take to read an event.
	sendTimeout = 10 * time.Second
)

// events streams what becomes of the page that a browser has: each event has all pieces that changed since the last one. The
// ID of an event is the tag of the page that it makes, so that a browser that comes back gets nothing if it is the same.
func (s *site) events(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	select {
	case s.streams <- struct{}{}:
		defer func() { <-s.streams }()
	default:
		_ = send(w, []byte("retry: 30000\n\n")) // the page is open too often: the browser tries again by itself, in milliseconds
		return
	}
	has, f := r.Header.Get("Last-Event-ID"), filterOf(r)
	if has == "" {
		has = r.URL.Query().Get("seen")
	}
	event := []byte(": open\n\n")
	var before sheet
	for {
		m, changed := s.board.now()
		now, err := s.sheets.of(m, f)
		if err != nil {
			return // the browser tries again, and gets the page's error
		}
		if now.named != has {
			event = append(event, eventOf(now.named, now.since(before))...)
			has = now.named
		}
		before = now.sheet
		for waiting := true; waiting; {
			if send(w, event) != nil {
				return
			}
			event = nil
			select {
			case <-r.Context().Done():
				return
			case <-changed:
				waiting = false
			case <-time.After(quiet):
				event = []byte(": quiet\n\n")
			}
		}
	}
}

func send(w http.ResponseWriter, event []byte) error {
	if len(event) == 0 {
		return nil
	}
	control := http.NewResponseController(w)
	if err := control.SetWriteDeadline(time.Now().Add(sendTimeout)); err != nil {
		return err
	}
	if _, err := w.Write(event); err != nil {
		return err
	}
	if err := control.Flush(); err != nil {
		return err
	}
	return control.SetWriteDeadline(time.Time{}) // over HTTP/2 it would end the stream, though nothing waits to be written
}

// eventOf is an event of a stream. JSON keeps it on one line.
func eventOf(id string, pieces []piece) []byte {
	var data bytes.Buffer
	encoder := json.NewEncoder(&data)
	encoder.SetEscapeHTML(false) // it goes into no page
	_ = encoder.Encode(pieces)   // strings alone
	return fmt.Appendf(nil, "id: %s\ndata: %s\n\n", id, bytes.TrimSpace(data.Bytes()))
}

// since are the pieces that make a page of before one of s.
func (s sheet) since(before sheet) []piece {
	out := []piece{}
	for _, id := range s.names() {
		now, old := s[id], before[id]
		sameItem := func(a, b piece) bool { return a.ID == b.ID }
		if now.frame != old.frame || !slices.EqualFunc(now.items, old.items, sameItem) {
			out = append(out, piece{id, string(now.HTML())})
			continue
		}
		for i := range now.items {
			if now.items[i] != old.items[i] {
				out = append(out, now.items[i])
			}
		}
	}
	return out
}
