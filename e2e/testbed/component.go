// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"time"
)

// Kinds of component, in the order in which a plane starts them.
const (
	kindEtcd              = "etcd"
	kindAPIServer         = "apiserver"
	kindControllerManager = "controller-manager"
)

// component is one process of a plane over all its restarts.
//
//	          start             stop --signal STOP
//	stopped ─────────▶ running ────────────────────▶ frozen
//	   ▲   ◀───────────  │  ◀────────────────────────  │
//	   │       stop      │            start            │ stop
//	   │                 │ ends by itself              │
//	   └─────────────────┴─────────────────────────────┘
//
// start and stop are called with the plane's lock held; the state may be read at any time.
type component struct {
	name string // such as apiserver-2
	kind string
	path string // of the binary
	args []string
	log  string // path of the log file
	dir  string // working directory

	proc   atomic.Pointer[process] // nil when stopped
	frozen atomic.Bool
	// ready returns the check that one wait polls: nil once the component does its work.
	ready func() func(context.Context) error
	// changed is told after every change of state; note is "" unless the component ended by itself.
	changed func(note string)
}

func (c *component) running() bool { return c.proc.Load() != nil && !c.frozen.Load() }

func (c *component) state() string {
	switch {
	case c.proc.Load() == nil:
		return "stopped"
	case c.frozen.Load():
		return "frozen"
	default:
		return "running"
	}
}

// start launches or thaws the process and does not wait until it serves.
func (c *component) start(s *spawner) error {
	p := c.proc.Load()
	switch {
	case p != nil && c.frozen.Load():
		if err := p.signal(syscall.SIGCONT); err != nil {
			return fmt.Errorf("thaw %s: %w", c.name, err)
		}
		c.frozen.Store(false)
	case p != nil:
		return fmt.Errorf("%s is running already", c.name)
	default:
		p, err := s.spawn(c.path, c.args, c.log, c.dir)
		if err != nil {
			return fmt.Errorf("start %s: %w", c.name, err)
		}
		c.proc.Store(p)
		go c.watch(p)
	}
	c.changed("")
	return nil
}

// watch notices a process that ends without having been asked to.
func (c *component) watch(p *process) {
	<-p.done
	if c.proc.CompareAndSwap(p, nil) {
		c.frozen.Store(false)
		c.changed(fmt.Sprintf("%s ended by itself (%s), its log is %s", c.name, p.exitReason(c.log), c.log))
	}
}

// stop ends the process with sig, or freezes it with SIGSTOP.
func (c *component) stop(sig syscall.Signal) error {
	const grace = 10 * time.Second
	p := c.proc.Load()
	if p == nil {
		return fmt.Errorf("%s is not running", c.name)
	}
	if sig == syscall.SIGSTOP {
		if err := p.signal(sig); err != nil {
			return fmt.Errorf("freeze %s: %w", c.name, err)
		}
		c.frozen.Store(true)
		c.changed("")
		return nil
	}
	c.proc.CompareAndSwap(p, nil) // From here on its end is expected.
	c.frozen.Store(false)
	if err := p.stop(sig, grace); err != nil {
		return fmt.Errorf("stop %s: %w", c.name, err)
	}
	c.changed("")
	return nil
}

// await polls ready until it holds, the process ends, or the time is over.
func (c *component) await(ctx context.Context) error {
	const limit, period = 2 * time.Minute, 50 * time.Millisecond
	p := c.proc.Load()
	if p == nil {
		return fmt.Errorf("%s is not running, its log is %s", c.name, c.log)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(period)
	defer tick.Stop()
	var last error
	check := c.ready()
	for {
		if err := check(ctx); err == nil {
			return nil
		} else if ctx.Err() == nil {
			last = err // What an ended context does to a request explains nothing.
		}
		select {
		case <-tick.C:
		case <-p.done:
			return fmt.Errorf("%s ended before it was ready (%s), its log is %s", c.name, p.exitReason(c.log), c.log)
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return fmt.Errorf("interrupted before %s was ready", c.name)
			}
			return fmt.Errorf("%s is not ready after %s: %w; its log is %s", c.name, limit, last, c.log)
		}
	}
}
