// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package catchup asks each member itself for all that it published. Until it has answered, what others hold of it may be older than what
// this cluster had of it before the agent started, and proves nothing.
package catchup

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/roster-mesh/roster/agent/loop"
)

// pullTimeout bounds how long a member may take to send what it published.
const pullTimeout = 20 * time.Second

// Options are the options of New. All fields are required.
type Options struct {
	// Alive reports whether a member is alive in the mesh.
	Alive func(clusterID string) bool
	// Pull fetches all that a member itself published.
	Pull func(ctx context.Context, clusterID string) error
	Log  *slog.Logger
}

// CatchUp asks each member itself, once, for all that it published. Until then, what others hold of it may be older
// than the state that the copies here were made from.
type CatchUp struct {
	// Done is called when a member has caught up. It is set before Run.
	Done func(clusterID string)

	o       Options
	members *loop.Loop[string]

	mu   sync.Mutex
	done map[string]bool
}

// New returns a catch-up that has asked no member.
func New(o Options) *CatchUp {
	c := &CatchUp{o: o, done: map[string]bool{}}
	c.members = loop.New("catch-up", o.Log, c.ask)
	return c
}

// Run asks members until ctx ends.
func (c *CatchUp) Run(ctx context.Context) error { return c.members.Run(ctx, 8) }

// Enqueue asks a member, if it is alive and was not asked before.
func (c *CatchUp) Enqueue(clusterID string) { c.members.Add(clusterID) }

// CaughtUp reports whether a member itself has sent all that it published since this agent started.
func (c *CatchUp) CaughtUp(clusterID string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.done[clusterID]
}

// Forget resets CaughtUp for a cluster that is gone from the group.
func (c *CatchUp) Forget(clusterID string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.done, clusterID)
}

func (c *CatchUp) ask(ctx context.Context, id string) error {
	if c.CaughtUp(id) || !c.o.Alive(id) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, pullTimeout)
	defer cancel()
	if err := c.o.Pull(ctx, id); err != nil {
		return fmt.Errorf("ask the member for all that it published: %w", err)
	}
	c.mu.Lock()
	c.done[id] = true
	c.mu.Unlock()
	c.Done(id)
	return nil
}
