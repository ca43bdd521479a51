// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"context"
	"sync"
	"time"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/live"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/ui/view"
)

const (
	// settle sums up changes that come together: an agent that starts writes several.
	settle = 100 * time.Millisecond
	// mostOften is how often the page changes at most.
	mostOften = time.Second
)

// point is a cluster that is watched.
type point struct {
	client   *clusters.Client
	follower *live.Follower
}

// board watches the clusters, and makes one model of what they hold for all who look at it.
type board struct {
	points  []point // the one of --context first
	find    func([]view.Held) []view.Finding
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex
	shown   *view.Model   // nil when something changed since
	changed chan struct{} // closed with the next change
}

func newBoard(ctx context.Context, all []*clusters.Client, find func([]view.Held) []view.Finding) (*board, error) {
	ctx, cancel := context.WithCancel(ctx)
	b := &board{find: find, cancel: cancel, changed: make(chan struct{})}
	news := make(chan struct{}, 1)
	for _, c := range all {
		f, err := live.Follow(ctx, c)
		if err != nil {
			b.stop()
			return nil, err
		}
		b.points = append(b.points, point{c, f})
		b.running.Go(func() { pass(ctx, f.Changed(), news) })
	}
	b.running.Go(func() { b.run(ctx, news) })
	return b, nil
}

// pass passes on that something changed.
func pass(ctx context.Context, from <-chan struct{}, to chan<- struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-from:
		}
		select {
		case to <- struct{}{}:
		default: // it will be looked at anyway
		}
	}
}

// run tells those who look at the board that something changed, at most once in mostOften.
func (b *board) run(ctx context.Context, news <-chan struct{}) {
	pause := func(d time.Duration) bool {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(d):
			return true
		}
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-news:
		}
		if !pause(settle) {
			return
		}
		b.mu.Lock()
		b.shown = nil
		close(b.changed)
		b.changed = make(chan struct{})
		b.mu.Unlock()
		if !pause(mostOften - settle) {
			return
		}
	}
}

// now is the present model, and what is closed when there is another one.
func (b *board) now() (*view.Model, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.shown == nil {
		var all []view.Held
		for _, p := range b.points {
			v, err := p.follower.View()
			if err != nil {
				v.Problem = clusters.Reason(err)
			}
			all = append(all, view.Held{Client: p.client, View: v})
		}
		b.shown = view.Of(all, b.find(all))
	}
	return b.shown, b.changed
}

// peerContexts are the contexts of other clusters, by the name that the own cluster lists them under.
func (b *board) peerContexts() map[string]string {
	out := map[string]string{}
	m, _ := b.now()
	for _, r := range m.Matrix.Rows {
		if r.Told != "" && !r.Own {
			out[r.Name] = r.Told
		}
	}
	return out
}

// complete tells whether everything has been read once, or cannot be read, which the page shows.
func (b *board) complete() bool {
	for _, p := range b.points {
		if v, err := p.follower.View(); err == nil && !v.Complete {
			return false
		}
	}
	return true
}

// stop ends the watches.
func (b *board) stop() {
	b.cancel()
	for _, p := range b.points {
		p.follower.Stop()
	}
	b.running.Wait()
}
