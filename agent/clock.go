// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"hash/crc32"
	"math"
	"net/http"
	"sync"
	"time"

	"github.com/roster-mesh/roster/kube"
)

const (
	// hearEvery is how seldom the answers of an API server are asked what time it is there.
	hearEvery = 10 * time.Second
	// clockOff is from where two clocks differ: the Date of an answer has whole seconds, and answers take a while.
	clockOff = 30 * time.Second
	// latestYear is the last that timestamps of objects can be in all the time zones of RFC 3339.
	latestYear = 9998
)

// issuerClock tells the time as one API server does, by the Date that its answers carry. In between it goes by the
// time that passes, so a clock of this machine that is wrong, or is set, changes nothing. The lives of tokens are
// stated by that server's clock, and what is written there is dated by it. Nothing else that the agent decides depends
// on the time of day. Before the server has said what time it is, another clock counts.
type issuerClock struct {
	// wall is the clock to go by before the server has said anything, nil for that of this machine. For a peer's server
	// it is the local one's: where this machine's is wrong, no start takes all credentials for over.
	wall func() time.Time
	// told is called with how far the server is ahead of that, and whether it is not where it should be by
	// what it said before; nil where nobody asks.
	told func(ahead time.Duration, moved bool)

	mu    sync.Mutex
	there time.Time // what the time was there
	heard time.Time // when that was here; zero for never
}

// here is the time by the clock that counts before the server's.
func (c *issuerClock) here() time.Time {
	if c.wall != nil {
		return c.wall()
	}
	return time.Now()
}

// hear takes in an answer of the API server.
func (c *issuerClock) hear(answer *http.Response) {
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
	if c.told != nil {
		c.told(date.Sub(c.here()), known && date.Sub(expected).Abs() > clockOff)
	}
}

// issued takes in a kubeconfig whose token was made a moment ago.
func (c *issuerClock) issued(kubeconfig []byte) {
	if from, _, ok := kube.KubeconfigValidity(kubeconfig); ok {
		c.set(from)
	}
}

// set takes in what the time is there now, and returns what it should be by what was known.
func (c *issuerClock) set(there time.Time) (expected time.Time, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	expected, known = c.there.Add(now.Sub(c.heard)), !c.heard.IsZero()
	c.there, c.heard = there, now
	return expected, known
}

func (c *issuerClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.heard.IsZero() {
		return c.here()
	}
	return c.there.Add(time.Since(c.heard))
}

// renewIn is how long a kubeconfig may be used before it should be renewed, when a fifth of its life is left,
// or a little more, so that what was issued together is not renewed together; 0 or less means now. One whose
// life cannot be told is used until it is refused, and one whose life has not begun is refused.
func (c *issuerClock) renewIn(kubeconfig []byte) time.Duration {
	from, until, ok := kube.KubeconfigValidity(kubeconfig)
	if !ok {
		return untilWoken
	}
	now := c.now()
	if from.Sub(now) > clockOff {
		return 0
	}
	life := until.Sub(from)
	spread := time.Duration(float64(life) / 20 * float64(crc32.ChecksumIEEE(kubeconfig)) / math.MaxUint32)
	return until.Add(-life/5 - spread).Sub(now)
}

// over says that the life of a kubeconfig has ended.
func (c *issuerClock) over(kubeconfig []byte) bool {
	_, until, ok := kube.KubeconfigValidity(kubeconfig)
	return ok && until.Before(c.now())
}
