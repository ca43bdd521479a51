// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package address

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roster-mesh/roster/agent/apiconn"
	"github.com/roster-mesh/roster/agent/health"
	"github.com/roster-mesh/roster/agent/loop"
	"github.com/roster-mesh/roster/kube"
)

const (
	// owner is the name of this part in Health.
	owner = "address"
	// grace is how long a cloud may take to assign an address to a Service before that is a problem.
	grace = 2 * time.Minute
)

// errNoAddress is the problem while other clusters have no address to dial.
var errNoAddress = errors.New("other clusters cannot reach this one")

// Options are the options of New.
type Options struct {
	Advertise string          // --mesh-advertise, HOST:PORT; "" for none
	Service   string          // --mesh-service, NAMESPACE/NAME; "" for none
	Listening func() net.Addr // the address of the mesh port
	Client    *kube.Client    // of the local API server
	Health    *health.Health
	Problem   func(error) error // reports what is wrong with the address, nil for nothing
	Log       *slog.Logger
}

// Hooks are called by an Address when it changes.
type Hooks struct {
	Changed func() // MeshEndpoints has changed
}

// Address finds where other clusters dial this one. Its methods are safe for concurrent use.
type Address struct {
	Hooks Hooks // set before Run

	options   Options
	reporting *loop.Task

	mu     sync.Mutex
	known  known
	logged string // the last problem in the log
}

// New returns an address that knows nothing before Run.
func New(o Options) *Address {
	a := &Address{options: o}
	a.reporting = loop.NewTask("address of the mesh", o.Log, func(context.Context) error {
		a.report(time.Now())
		return nil
	})
	return a
}

// Await makes the agent not ready until the Service has an address. It is called before Health.Ready.
func (a *Address) Await() {
	if a.options.Service != "" {
		a.options.Health.SetNotReady(owner, "the Service "+a.options.Service+" has not been read yet")
	}
}

// refusedFirst is the first wait after the Service could not be read.
const refusedFirst = 10 * time.Second

// Run watches the Service, if there is one, until ctx ends.
func (a *Address) Run(ctx context.Context) error {
	if a.options.Service == "" {
		return nil
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return a.watch(ctx) })
	group.Go(func() error { return a.reporting.Run(ctx) })
	return group.Wait()
}

// watch watches the Service.
func (a *Address) watch(ctx context.Context) error {
	name, patience := ServiceName(a.options.Service), loop.Patience{First: refusedFirst, Longest: apiconn.UntilWoken}
	for {
		err := kube.WatchService(ctx, a.options.Client, name, func(now *kube.Service) {
			patience.Worked()
			a.observe(func(k *known) { k.asked, k.service, k.refused = true, now, nil })
		})
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the agent stops
		}
		a.observe(func(k *known) {
			k.asked, k.refused = true, fmt.Errorf("cannot be read: %w; helm upgrade gives the right to that", err)
		})
		loop.Sleep(ctx, patience.Next())
	}
}

// NodesChanged is called with all nodes of this cluster when one of them changed. Call it after Run has started.
func (a *Address) NodesChanged(nodes []*kube.Node) {
	a.observe(func(k *known) { k.nodes = nodes })
}

// MeshEndpoints are the addresses at which members dial this cluster. recorded are those in its Cluster object.
func (a *Address) MeshEndpoints(recorded []string) []string {
	if a.options.Advertise != "" {
		return []string{a.options.Advertise}
	}
	if a.options.Service != "" {
		now := a.now()
		if len(now.endpoints) > 0 {
			return now.endpoints
		}
		if !now.own {
			return recorded // from an earlier start: better than an address that nobody can reach
		}
	}
	return []string{a.ownAddress()}
}

// now returns the present state. Do not change the slices in it.
func (a *Address) now() known {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.known
}

// observe updates what is known of the Service and the nodes, and calls Hooks.Changed.
func (a *Address) observe(change func(*known)) {
	if a.options.Service == "" {
		return
	}
	a.mu.Lock()
	change(&a.known)
	changed := a.known.update(time.Now())
	a.mu.Unlock()
	if changed {
		a.options.Log.Info("publishing where other clusters reach this one", "service", a.options.Service, "mesh", a.MeshEndpoints(nil))
		a.Hooks.Changed()
	}
	a.reporting.Trigger()
}

// report reports what is wrong with the address: in /readyz at once if there was no address since the start; after the
// grace everywhere.
func (a *Address) report(at time.Time) {
	now := a.now()
	switch left := grace - at.Sub(now.since); {
	case !now.asked: // Run has reported that
	case now.missing == nil:
		a.isNews("")
		a.options.Health.SetNotReady(owner, "")
		_ = a.options.Problem(nil)
	case left > 0:
		if len(now.endpoints) == 0 && !now.own {
			a.options.Health.SetNotReady(owner, fmt.Sprintf("the Service %s %v", a.options.Service, now.missing))
		}
		a.reporting.TriggerAfter(left)
	default:
		err := fmt.Errorf("%w: after two minutes the Service %s %w", errNoAddress, a.options.Service, now.missing)
		a.options.Health.SetNotReady(owner, err.Error())
		_ = a.options.Problem(err)
		if a.isNews(err.Error()) {
			a.options.Log.Warn("not ready: no address for other clusters", "error", err)
		}
	}
}

// isNews reports whether line differs from the last one.
func (a *Address) isNews(line string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	was := a.logged
	a.logged = line
	return line != "" && line != was
}

// ownAddress is the address on which the mesh listens, with a host that others can dial.
func (a *Address) ownAddress() string {
	host, port, err := net.SplitHostPort(a.options.Listening().String())
	if err != nil {
		return a.options.Listening().String()
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsUnspecified() {
		return net.JoinHostPort(host, port)
	}
	return net.JoinHostPort(firstGlobalAddress(), port)
}

// firstGlobalAddress is the first global unicast address of this machine. A pod has one.
func firstGlobalAddress() string {
	addresses, err := net.InterfaceAddrs()
	if err == nil {
		for _, a := range addresses {
			if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() {
				return n.IP.String()
			}
		}
	}
	return "127.0.0.1"
}

// ServiceName splits NAMESPACE/NAME; what is missing is empty.
func ServiceName(text string) types.NamespacedName {
	namespace, name, _ := strings.Cut(text, "/")
	return types.NamespacedName{Namespace: namespace, Name: name}
}
