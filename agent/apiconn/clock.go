// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package apiconn

import (
	"hash/crc32"
	"log/slog"
	"math"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/roster-mesh/roster/kube"
)

const (
	// UntilWoken is how seldom is looked at what changes only when something else wakes us.
	UntilWoken = time.Hour
	// hearEvery is how seldom the answers of an API server are asked what time it is there.
	hearEvery = 10 * time.Second
	// ClockOff is from where two clocks differ: the Date of an answer has whole seconds, and answers take a while.
	ClockOff = 30 * time.Second
	// latestYear is the last that timestamps of objects can be in all the time zones of RFC 3339.
	latestYear = 9998
)

// Clock tells the time as one API server does, by the Date that its answers carry. In between it goes by the
// time that passes, so a clock of this machine that is wrong, or is set, changes nothing. The lives of tokens are
// stated by that server's clock, and what is written there is dated by it. Nothing else that the agent decides depends
// on the time of day. Before the server has said what time it is, another clock counts.
type Clock struct {
	// Fallback is the clock to go by before the server has said anything, nil for that of this machine. For a peer's server
	// it is the local one's: where this machine's is wrong, no start takes all credentials for over.
	Fallback func() time.Time
	// Heard is called with how far the server is ahead of that, and whether it is not where it should be by
	// what it said before; nil where nobody asks.
	Heard func(ahead time.Duration, moved bool)

	mu    sync.Mutex
	there time.Time // what the time was there
	heard time.Time // when that was here; zero for never
}

// here is the time by the clock that counts before the server's.
func (c *Clock) here() time.Time {
	if c.Fallback != nil {
		return c.Fallback()
	}
	return time.Now()
}

// hear takes in an answer of the API server.
func (c *Clock) hear(answer *http.Response) {
	c.mu.Lock()
	fresh := !c.heard.IsZero() && time.Since(c.heard) < hearEvery
	c.mu.Unlock()
	if fresh {
		return
	}
	text := answer.Header.Get("Date")
	if text == "" {
		return
	}
	date, err := http.ParseTime(text)
	if err != nil || date.Year() > latestYear {
		return
	}
	date = date.Add(500 * time.Millisecond) // on average, of whole seconds
	expected, known := c.set(date)
	if c.Heard != nil {
		c.Heard(date.Sub(c.here()), known && date.Sub(expected).Abs() > ClockOff)
	}
}

// Issued takes in a kubeconfig whose token was made a moment ago.
func (c *Clock) Issued(kubeconfig []byte) {
	if from, _, ok := kube.KubeconfigValidity(kubeconfig); ok {
		c.set(from)
	}
}

// set takes in what the time is there now, and returns what it should be by what was known.
func (c *Clock) set(there time.Time) (expected time.Time, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	expected, known = c.there.Add(now.Sub(c.heard)), !c.heard.IsZero()
	c.there, c.heard = there, now
	return expected, known
}

// Now is the time there.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.heard.IsZero() {
		return c.here()
	}
	return c.there.Add(time.Since(c.heard))
}

// RenewIn is how long a kubeconfig may be used before it should be renewed, when a fifth of its life is left,
// or a little more, so that what was issued together is not renewed together; 0 or less means now. One whose
// life cannot be told is used until it is refused, and one whose life has not begun is refused.
func (c *Clock) RenewIn(kubeconfig []byte) time.Duration {
	from, until, ok := kube.KubeconfigValidity(kubeconfig)
	if !ok {
		return UntilWoken
	}
	now := c.Now()
	if from.Sub(now) > ClockOff {
		return 0
	}
	life := until.Sub(from)
	spread := time.Duration(float64(life) / 20 * float64(crc32.ChecksumIEEE(kubeconfig)) / math.MaxUint32)
	return until.Add(-life/5 - spread).Sub(now)
}

// Over says that the life of a kubeconfig has ended.
func (c *Clock) Over(kubeconfig []byte) bool {
	_, until, ok := kube.KubeconfigValidity(kubeconfig)
	return ok && until.Before(c.Now())
}

// Comparison is between the clock of the local API server and that of this machine.
type Comparison struct {
	log   *slog.Logger
	wrong atomic.Bool
	moved atomic.Pointer[func()]
}

// Compare compares a clock from its first answer on. It logs, once each time, that this machine's clock is another one,
// and that it is not any more.
func Compare(clock *Clock, log *slog.Logger) *Comparison {
	c := &Comparison{log: log}
	clock.Heard = c.hear
	return c
}

// Watch has moved called, from here on, when the server's clock was set, or this machine stood still: credentials live for
// longer or less then.
func (c *Comparison) Watch(moved func()) { c.moved.Store(&moved) }

func (c *Comparison) hear(ahead time.Duration, moved bool) {
	if tell := c.moved.Load(); moved && tell != nil {
		(*tell)()
	}
	if now := ahead.Abs() > ClockOff; now == c.wrong.Swap(now) {
		return
	} else if !now {
		c.log.Info("the clocks of this machine and of the API server agree again")
		return
	}
	c.log.Warn("the clock of this machine is not that of the API server: set the one that is wrong, as with `sudo timedatectl set-ntp true`; until then the dates in this log mislead, and certificates may not be accepted", "serverAhead", ahead.Round(time.Second))
}
