// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// WaitPeriod is how often a command looks whether an agent has finished: a quarter of what a person notices, and two
// small reads cost an API server nothing.
const WaitPeriod = 200 * time.Millisecond

// quiet is how long a command waits before it says what for: an agent that runs has done its part by then.
const quiet = 2 * time.Second

// Wait is how long a command waits for agents or servers, and where it says what for.
type Wait struct {
	Timeout  time.Duration
	Progress Progress
}

// For calls look until nothing is missing, and shows what is when that changes, from two seconds on. After the timeout it returns a
// TimeoutError, whose text is late with the timeout put in for %s.
func (w Wait) For(ctx context.Context, late string, look func(context.Context) (missing []string, err error)) error {
	deadline := time.NewTimer(w.Timeout)
	defer deadline.Stop()
	tick := time.NewTicker(WaitPeriod)
	defer tick.Stop()
	var last string
	began := time.Now()
	for {
		missing, err := look(ctx)
		if err != nil {
			missing = []string{"not readable now: " + OneLine(err.Error())}
		}
		if len(missing) == 0 {
			return nil
		}
		if now := First(missing); now != last && time.Since(began) >= quiet {
			w.Progress("%s", now)
			last = now
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.New("interrupted; what was begun goes on by itself")
		case <-deadline.C:
			return &TimeoutError{Text: fmt.Sprintf(late, w.Timeout), Missing: missing}
		}
	}
}
