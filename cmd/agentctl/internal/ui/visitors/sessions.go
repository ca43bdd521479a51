// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package visitors

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	// longest is how long a session lasts.
	longest = 8 * time.Hour
	// maxSessions are kept at a time, and maxOfUser of one user. The one that is unused for longest gives way, and one that
	// has something open last.
	maxSessions, maxOfUser = 512, 8
	// maxOpen are the requests that one session has open at a time: one for each tab, and those that come and go.
	maxOpen = 16
	// newTokens are looked at in a second, and newTokensAtOnce of them together: whoever reaches the page may send tokens, and
	// each is a question to the API server.
	newTokens, newTokensAtOnce = 5, 20
	// maxQuestions are asked at a time about newcomers, and as many about those who are there: neither wait for the others.
	maxQuestions = 4
	// questionTimeout bounds one of them, with the time that it waits for its turn.
	questionTimeout = 10 * time.Second
	// interval is the age at which an answer of the API server is too old. A new one is asked for at half of it.
	interval = time.Minute
)

// Asker says whose token that is, and that he may see the page: *Reviewer, for one. A *RefusalError says that he may not; any other
// error that it is not known.
type Asker interface {
	Ask(ctx context.Context, token string) (user string, err error)
}

// Door lets visitors in. It is safe for use by several goroutines.
type Door struct {
	asker     Asker
	pace      *rate.Limiter // of tokens that are new
	newcomers chan struct{} // a place for each question about one
	present   chan struct{} // the same for those who are there

	mu       sync.Mutex
	sessions map[key]*session
}

// New returns a door without visitors.
func New(asker Asker) *Door {
	return &Door{
		asker: asker, pace: rate.NewLimiter(newTokens, newTokensAtOnce),
		newcomers: make(chan struct{}, maxQuestions), present: make(chan struct{}, maxQuestions),
		sessions: map[key]*session{},
	}
}

// key is that of a session: a sum, so that no comparison tells how much of it somebody has guessed.
type key [sha256.Size]byte

func keyOf(kind, secret string) key { return sha256.Sum256([]byte(kind + " " + secret)) }

// session is one visitor's. What is not told of it otherwise is fixed.
type session struct {
	key    key
	token  string
	form   bool
	until  time.Time
	asking chan struct{} // of one place: one question about it at a time
	ended  chan struct{} // closed at its end

	// Under the lock of the door.
	user  string
	asked time.Time // when the question was put to which the last answer was yes
	used  time.Time
	open  int
}

// plausible is what a token looks like: RFC 6750.
func plausible(token string) bool {
	text := strings.TrimRight(token, "=")
	return text != "" && len(token) <= maxToken && !strings.ContainsFunc(text, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && !strings.ContainsRune("-._~+/", r)
	})
}

// enter begins a session for a token that is new.
func (d *Door) enter(ctx context.Context, k key, token string, form bool) (*session, error) {
	if !plausible(token) {
		return nil, refuse(http.StatusUnauthorized, "This is not a token.")
	}
	if !d.pace.Allow() {
		return nil, refuse(http.StatusTooManyRequests, "Too many sign in now. Try again in a few seconds.")
	}
	now := time.Now()
	user, err := d.ask(ctx, d.newcomers, token)
	if err != nil {
		return nil, err
	}
	s := &session{
		key: k, token: token, form: form, until: now.Add(longest), asking: make(chan struct{}, 1), ended: make(chan struct{}),
		user: user, asked: now, used: now,
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if there := d.sessions[k]; there != nil { // two requests at once
		return there, nil
	}
	d.makeRoomLocked(user)
	d.sessions[k] = s
	return s, nil
}

// idlerThan says which of two is in use less.
func (s *session) idlerThan(other *session) bool {
	if (s.open > 0) != (other.open > 0) {
		return s.open == 0
	}
	return s.used.Before(other.used)
}

// makeRoomLocked ends the sessions that are over, and one more where a user, or all of them, have too many.
func (d *Door) makeRoomLocked(user string) {
	now := time.Now()
	var oldest, oldestOfUser *session
	ofUser := 0
	for _, s := range d.sessions {
		if !now.Before(s.until) {
			d.endLocked(s)
			continue
		}
		if oldest == nil || s.idlerThan(oldest) {
			oldest = s
		}
		if s.user == user {
			ofUser++
			if oldestOfUser == nil || s.idlerThan(oldestOfUser) {
				oldestOfUser = s
			}
		}
	}
	switch {
	case ofUser >= maxOfUser:
		d.endLocked(oldestOfUser)
	case len(d.sessions) >= maxSessions:
		d.endLocked(oldest)
	}
}

// find is the session of a key, or nil.
func (d *Door) find(k key) *session {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.sessions[k]
	if s != nil && !time.Now().Before(s.until) {
		d.endLocked(s)
		return nil
	}
	return s
}

// end ends a session, if there is one.
func (d *Door) end(k key) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.sessions[k]; s != nil {
		d.endLocked(s)
	}
}

func (d *Door) endLocked(s *session) {
	if d.sessions[s.key] == s {
		delete(d.sessions, s.key)
		close(s.ended)
	}
}

// begin counts a request of a session, and says who sends it.
func (d *Door) begin(s *session) (Visitor, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s.open >= maxOpen {
		return Visitor{}, refuse(http.StatusTooManyRequests, "You have the page open too often. Close some of its tabs.")
	}
	s.open++
	s.used = time.Now()
	return Visitor{s.user, s.token, s.form}, nil
}

// finish is the end of a request that was begun.
func (d *Door) finish(s *session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s.open--
	s.used = time.Now()
}

// age is how old the answer about a session is, and what is left of the session.
func (d *Door) age(s *session) (age, left time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Since(s.asked), time.Until(s.until)
}

// due is when to ask about a session again. Where there was no answer, a while is left to the API server.
func (d *Door) due(s *session) time.Duration {
	age, left := d.age(s)
	return min(max(interval/2-age, interval/12), max(left, 0))
}

// confirm returns nil while a visitor may see the page. It asks the API server if that is due.
func (d *Door) confirm(ctx context.Context, s *session) error {
	if done, err := d.current(s); done {
		return err
	}
	select {
	case s.asking <- struct{}{}:
		defer func() { <-s.asking }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if done, err := d.current(s); done { // somebody else has asked
		return err
	}
	asked := time.Now()
	user, err := d.ask(ctx, d.present, s.token)
	if _, refused := errors.AsType[*RefusalError](err); refused {
		d.end(s.key)
		return err
	}
	if err != nil {
		if age, _ := d.age(s); age < interval {
			return nil // the last answer still counts
		}
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	s.user, s.asked = user, asked
	return nil
}

// current tells whether a session needs no question: it has ended, or the last answer is a new one.
func (d *Door) current(s *session) (done bool, err error) {
	age, left := d.age(s)
	if left <= 0 {
		d.end(s.key)
	}
	select {
	case <-s.ended:
		return true, refuse(http.StatusUnauthorized, "Your session has ended. Sign in again.")
	default:
		return age < interval/2, nil
	}
}

// ask asks when it is its turn.
func (d *Door) ask(ctx context.Context, turn chan struct{}, token string) (user string, err error) {
	ctx, cancel := context.WithTimeout(ctx, questionTimeout)
	defer cancel()
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
	case <-ctx.Done():
		return "", errors.New("too many ask now; try again in a few seconds")
	}
	return d.asker.Ask(ctx, token)
}
