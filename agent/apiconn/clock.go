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
	// UntilWoken is the longest wait for something that normally wakes the agent by an event.
	UntilWoken = time.Hour
	// observeEvery is how often, at most, the clock is set from an answer of the API server.
	observeEvery = 10 * time.Second
	// MaxSkew is the difference from which two clocks count as different: the Date header has whole seconds, and
	// answers take a while to arrive.
	MaxSkew = 30 * time.Second
	// latestYear is the last year that timestamps of objects can have in all time zones of RFC 3339.
	latestYear = 9998
)

// Clock tells the time of one API server, from the Date header of its answers. Between two answers it counts elapsed
// time, so it does not matter if the clock of this machine is wrong or is set. The agent uses it for the life of
// tokens, which the server states by its own clock, and for the timestamps that it writes there. Nothing else in the
// agent depends on the time of day. Before the first answer, Fallback counts.
type Clock struct {
	// Fallback is the clock before the first answer, nil for the clock of this machine. For the API server of a peer it
	// is that of the local API server: otherwise a wrong clock of this machine would make every credential look expired
	// at the start.
	Fallback func() time.Time
	// Observed is called after an answer was observed: ahead is how far the server is ahead of Fallback, and moved says
	// that the server's clock jumped. nil for no call.
	Observed func(ahead time.Duration, moved bool)

	mu         sync.Mutex
	serverTime time.Time // the server's time at observedAt
	observedAt time.Time // by the clock of this machine; zero before the first answer
}

// fallback is the time before the first answer.
func (c *Clock) fallback() time.Time {
	if c.Fallback != nil {
		return c.Fallback()
	}
	return time.Now()
}

// observe sets the clock from an answer of the API server.
func (c *Clock) observe(answer *http.Response) {
	c.mu.Lock()
	fresh := !c.observedAt.IsZero() && time.Since(c.observedAt) < observeEvery
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
	if c.Observed != nil {
		c.Observed(date.Sub(c.fallback()), known && date.Sub(expected).Abs() > MaxSkew)
	}
}

// Issued sets the clock from a token that was issued a moment ago.
func (c *Clock) Issued(kubeconfig []byte) {
	if from, _, ok := kube.KubeconfigValidity(kubeconfig); ok {
		c.set(from)
	}
}

// set sets the clock. It returns the time that was expected from earlier answers; known is false before the first one.
func (c *Clock) set(serverTime time.Time) (expected time.Time, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	expected, known = c.serverTime.Add(now.Sub(c.observedAt)), !c.observedAt.IsZero()
	c.serverTime, c.observedAt = serverTime, now
	return expected, known
}

// Now is the time by the API server's clock.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.observedAt.IsZero() {
		return c.fallback()
	}
	return c.serverTime.Add(time.Since(c.observedAt))
}

// RenewIn is how long a kubeconfig may be used before it should be renewed: until a fifth of the life of its token is
// left. A spread of up to a twentieth keeps tokens that were issued together from being renewed together. 0 or less
// means now. A kubeconfig whose life is not known is used until the server refuses it; one whose life has not begun is
// renewed at once.
func (c *Clock) RenewIn(kubeconfig []byte) time.Duration {
	from, until, ok := kube.KubeconfigValidity(kubeconfig)
	if !ok {
		return UntilWoken
	}
	now := c.Now()
	if from.Sub(now) > MaxSkew {
		return 0
	}
	life := until.Sub(from)
	spread := time.Duration(float64(life) / 20 * float64(crc32.ChecksumIEEE(kubeconfig)) / math.MaxUint32)
	return until.Add(-life/5 - spread).Sub(now)
}

// Expired reports whether the token of a kubeconfig has expired.
func (c *Clock) Expired(kubeconfig []byte) bool {
	_, until, ok := kube.KubeconfigValidity(kubeconfig)
	return ok && until.Before(c.Now())
}

// Comparison compares the clock of the local API server with that of this machine.
type Comparison struct {
	log   *slog.Logger
	wrong atomic.Bool
	moved atomic.Pointer[func()]
}

// LogSkew compares a clock with that of this machine from its first observation on. It logs once when they differ, and
// once when they agree again.
func LogSkew(clock *Clock, log *slog.Logger) *Comparison {
	c := &Comparison{log: log}
	clock.Observed = c.observe
	return c
}

// Watch sets a function that is called when the server's clock jumped, which makes credentials live longer or shorter.
func (c *Comparison) Watch(moved func()) { c.moved.Store(&moved) }

func (c *Comparison) observe(ahead time.Duration, moved bool) {
	if changed := c.moved.Load(); moved && changed != nil {
		(*changed)()
	}
	if now := ahead.Abs() > MaxSkew; now == c.wrong.Swap(now) {
		return
	} else if !now {
		c.log.Info("the clocks of this machine and of the API server agree again")
		return
	}
	c.log.Warn("the clock of this machine is not that of the API server: set the one that is wrong, as with `sudo timedatectl set-ntp true`; until then the dates in this log mislead, and certificates may not be accepted", "serverAhead", ahead.Round(time.Second))
}
