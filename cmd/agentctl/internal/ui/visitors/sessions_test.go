// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package visitors

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A token that ends, a right that is taken away, and the end of the session close what is open within a minute, and nothing
// else does: the API server may be away for a moment.
func TestSessionsEnd(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		happens func(*registry)
		code    int
	}{
		"the token ends":      {func(r *registry) { delete(r.users, "ann-token") }, http.StatusUnauthorized},
		"a right is gone":     {func(r *registry) { r.refused["ann"] = "ann may not" }, http.StatusUnauthorized},
		"nobody can be asked": {func(r *registry) { r.away = true }, http.StatusServiceUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRegistry()
				h := guarded(r)
				c := signIn(t, h, "ann-token")
				ended := follow(t, h, c)
				time.Sleep(10 * time.Minute)
				if n := r.count(); ended() || n < 10 || n > 30 {
					t.Fatalf("ended %t after 10 minutes, with %d questions", ended(), n)
				}
				r.change(test.happens)
				time.Sleep(interval + time.Second)
				if !ended() {
					t.Error("what was open still is")
				}
				want(t, "a page then", serve(h, with(request(t.Context(), http.MethodGet, "/", ""), c)), test.code)
				r.change(func(r *registry) { r.away = false })
				got := serve(h, with(request(t.Context(), http.MethodGet, "/", ""), c))
				if stays := test.code == http.StatusServiceUnavailable; stays != (got.Code == http.StatusOK) {
					t.Errorf("later: %d", got.Code)
				}
			})
		})
	}
}

// An API server that answers nobody in time ends all that is open within the time that an answer lasts, as one does that refuses.
func TestQuestionsThatHang(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry()
		h := guarded(r)
		c := signIn(t, h, "ann-token")
		var all []func() bool
		for range maxOpen {
			all = append(all, follow(t, h, c))
		}
		r.change(func(r *registry) { r.takes = time.Hour })
		time.Sleep(interval + time.Second)
		for i, ended := range all {
			if !ended() {
				t.Errorf("stream %d is still open", i)
			}
		}
	})
}

func TestShortOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry()
		h := guarded(r)
		c := signIn(t, h, "ann-token")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			serve(h, with(request(ctx, http.MethodGet, "/events", ""), c))
		}()
		time.Sleep(interval/2 - time.Second)
		r.change(func(r *registry) { r.away = true })
		time.Sleep(interval / 3)
		want(t, "while the last answer counts", serve(h, with(request(t.Context(), http.MethodGet, "/", ""), c)), http.StatusOK)
		if n := r.count(); n > 8 {
			t.Errorf("%d questions to one who does not answer", n)
		}
		r.change(func(r *registry) { r.away = false })
		time.Sleep(time.Hour)
		select {
		case <-done:
			t.Error("a stream ended that nobody has ended")
		default:
		}
		cancel()
		<-done
	})
}

// Who floods the page with tokens asks the API server little, and keeps out nobody who is there.
func TestPace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry()
		h := guarded(r)
		c := signIn(t, h, "ann-token")
		r.change(func(r *registry) { r.takes = questionTimeout / 2 })
		var wait sync.WaitGroup
		codes := map[int]int{}
		var mu sync.Mutex
		for i := range 1000 {
			wait.Go(func() {
				time.Sleep(time.Duration(i) * 10 * time.Millisecond)
				got := serve(h, request(t.Context(), http.MethodGet, "/", fmt.Sprintf("wrong-%d", i)))
				mu.Lock()
				codes[got.Code]++
				mu.Unlock()
			})
		}
		wait.Go(func() {
			time.Sleep(interval)
			want(t, "one who is there", serve(h, with(request(t.Context(), http.MethodGet, "/", ""), c)), http.StatusOK)
		})
		time.Sleep(9 * time.Second)
		want(t, "one who was there before", serve(h, with(request(t.Context(), http.MethodGet, "/", ""), c)), http.StatusOK)
		wait.Wait()
		if codes[http.StatusTooManyRequests] < 900 || codes[http.StatusUnauthorized] == 0 || codes[http.StatusServiceUnavailable] == 0 {
			t.Errorf("answers %v", codes)
		}
		if n := r.count(); n > newTokensAtOnce+11*newTokens || r.most > maxQuestions {
			t.Errorf("%d questions, %d at a time", n, r.most)
		}
	})
}

func TestNumberOfSessions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRegistry()
		d := New(r)
		enter := func(user string, i int) key {
			token := fmt.Sprintf("%s-%d", user, i)
			r.change(func(r *registry) { r.users[token] = user })
			time.Sleep(time.Second)
			if _, err := d.enter(t.Context(), keyOf("cookie", token), token, true); err != nil {
				t.Fatal(err)
			}
			return keyOf("cookie", token)
		}
		first := enter("ann", 0)
		for i := range maxOfUser - 1 {
			enter("ann", i+1)
		}
		if d.find(first) == nil {
			t.Error("a session ended without need")
		}
		other := enter("bob", 0)
		if _, err := d.begin(d.find(first)); err != nil { // it has something open for long
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		enter("ann", maxOfUser+1)
		if d.find(first) == nil || len(d.sessions) != maxOfUser+1 {
			t.Errorf("%d sessions, and the one in use is there: %t", len(d.sessions), d.find(first) != nil)
		}
		d.finish(d.find(first))
		for i := range maxOfUser - 1 {
			enter("ann", maxOfUser+2+i)
		}
		enter("ann", maxOfUser)
		if d.find(first) != nil || d.find(other) == nil || len(d.sessions) != maxOfUser+1 {
			t.Errorf("%d sessions", len(d.sessions))
		}
		for i := range 2 * maxSessions {
			enter(fmt.Sprintf("user-%d", i), 0)
		}
		if len(d.sessions) != maxSessions {
			t.Errorf("%d sessions", len(d.sessions))
		}
		time.Sleep(longest)
		enter("ann", 100)
		if len(d.sessions) != 1 {
			t.Errorf("%d sessions, of which all but one are over", len(d.sessions))
		}
	})
}

func TestOpenRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := guarded(newRegistry())
		c := signIn(t, h, "ann-token")
		for range maxOpen {
			if follow(t, h, c)() {
				t.Fatal("a stream ended")
			}
		}
		page := func() *httptest.ResponseRecorder {
			return serve(h, with(request(t.Context(), http.MethodGet, "/", ""), c))
		}
		want(t, "one more", page(), http.StatusTooManyRequests)
		want(t, "another session", serve(h, with(request(t.Context(), http.MethodGet, "/", ""), signIn(t, h, "ann-token"))), http.StatusOK)
		serve(h, with(request(t.Context(), http.MethodPost, SignOutPath, ""), c))
		synctest.Wait() // all streams have ended, or the bubble would not
	})
}
