// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/roster-mesh/roster/agent/loop"
)

// pullTimeout bounds how long one member may take to tell us what it published.
const pullTimeout = 20 * time.Second

// CatchUpOptions are what a catch-up needs. All fields are required.
type CatchUpOptions struct {
	// Alive says that a member is met in the mesh.
	Alive func(clusterID string) bool
	// Pull gets all that a member itself published.
	Pull func(ctx context.Context, clusterID string) error
	Log  *slog.Logger
}

// CatchUp asks each member itself, once, for all that it published. Until then what others hold of it may be
// older than what made the copies that are here, and its features do not count as known.
type CatchUp struct {
	// Done is called when a member has told everything. It is set before Run.
	Done func(clusterID string)

	o       CatchUpOptions
	members *loop.Loop[string]

	mu   sync.Mutex
	done map[string]bool
}

// NewCatchUp returns one that has asked nobody.
func NewCatchUp(o CatchUpOptions) *CatchUp {
	c := &CatchUp{o: o, done: map[string]bool{}}
	c.members = loop.New("catch-up", o.Log, c.ask)
	return c
}

// Run asks until ctx ends.
func (c *CatchUp) Run(ctx context.Context) error { return c.members.Run(ctx, 8) }

// Ask has a member asked, if it is alive and was not asked before.
func (c *CatchUp) Ask(clusterID string) { c.members.Add(clusterID) }

// Heard says that a member has told everything since this agent started.
func (c *CatchUp) Heard(clusterID string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.done[clusterID]
}

// Forget takes back Heard, of a cluster that is gone from the group.
func (c *CatchUp) Forget(clusterID string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.done, clusterID)
}

func (c *CatchUp) ask(ctx context.Context, id string) error {
	if c.Heard(id) || !c.o.Alive(id) {
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
