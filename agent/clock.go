// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"hash/crc32"
	"math"
	"sync/atomic"
	"time"

	"github.com/roster-mesh/roster/kube"
)

// issuerClock tells the time as the API server does that issues tokens, whatever the clock of this machine says: the
// lives of tokens are stated by that server's clock. Nothing else that the agent decides depends on the time of day. The
// zero value takes the two clocks for equal until it sees a token that was just made.
type issuerClock struct {
	ahead atomic.Int64 // nanoseconds that the issuer is ahead of us
}

// issued takes in a kubeconfig whose token was made a moment ago.
func (c *issuerClock) issued(kubeconfig []byte) {
	if from, _, ok := kube.KubeconfigValidity(kubeconfig); ok {
		c.ahead.Store(int64(time.Until(from)))
	}
}

func (c *issuerClock) now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

// renewIn is how long a kubeconfig may be used before it should be renewed, when a fifth of its life is left,
// or a little more, so that what was issued together is not renewed together; 0 or less means now. One whose
// life cannot be told is used until it is refused.
func (c *issuerClock) renewIn(kubeconfig []byte) time.Duration {
	from, until, ok := kube.KubeconfigValidity(kubeconfig)
	if !ok {
		return untilWoken
	}
	life := until.Sub(from)
	spread := time.Duration(float64(life) / 20 * float64(crc32.ChecksumIEEE(kubeconfig)) / math.MaxUint32)
	return until.Add(-life/5 - spread).Sub(c.now())
}

// expired tells a kubeconfig that cannot be accepted any more.
func (c *issuerClock) expired(kubeconfig []byte) bool {
	_, until, ok := kube.KubeconfigValidity(kubeconfig)
	return ok && c.now().After(until)
}
