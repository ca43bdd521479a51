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
	// owner is who waits, in health.
	owner = "address"
	// grace is how long a cloud may take to give a Service its address before that counts as wrong.
	grace = 2 * time.Minute
)

// errNoAddress is what the Cluster object, /readyz and the log say while other clusters have nowhere to dial.
var errNoAddress = errors.New("other clusters cannot reach this one")

// Options of New.
type Options struct {
	Advertise string          // HOST:PORT, "" to find it out
	Service   string          // NAMESPACE/NAME of the Service before the mesh port, "" for none
	Listening func() net.Addr // where the mesh port is
	Client    *kube.Client    // of the local API server
	Health    *health.Health
	Problem   func(error) error // takes what is wrong with the address, nil for nothing
	Log       *slog.Logger
}

// Hooks are whom an Address tells.
type Hooks struct {
	Changed func() // MeshEndpoints are others now
}

// Address is where the agents of other clusters dial this one. Its methods are safe for concurrent use.
type Address struct {
	Hooks Hooks // set before Run

	options Options
	judging *loop.Task

	mu     sync.Mutex
	known  known
	logged string // the problem that was logged last
}

// New returns an address of which nothing is known before Run.
func New(o Options) *Address {
	a := &Address{options: o}
	a.judging = loop.NewTask("address of the mesh", o.Log, func(context.Context) error {
		a.judge(time.Now())
		return nil
	})
	return a
}

// Await makes the agent wait for the address before it is ready. It is called before Health.Ready.
func (a *Address) Await() {
	if a.options.Service != "" {
		a.options.Health.WaitFor(owner, "the Service "+a.options.Service+" has not been read yet")
	}
}

// Run keeps the address that the Service gives, until ctx ends.
func (a *Address) Run(ctx context.Context) error {
	if a.options.Service == "" {
		return nil
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return a.watch(ctx) })
	group.Go(func() error { return a.judging.Run(ctx) })
	return group.Wait()
}

// watch reads the Service.
func (a *Address) watch(ctx context.Context) error {
	name := ServiceName(a.options.Service)
	for {
		err := kube.WatchService(ctx, a.options.Client, name, func(now *kube.Service) {
			a.learn(func(k *known) { k.asked, k.service, k.refused = true, now, nil })
		})
		if ctx.Err() != nil {
			return nil //nolint:nilerr // it ended because the agent ends
		}
		a.learn(func(k *known) {
			k.asked, k.refused = true, fmt.Errorf("cannot be read: %w; helm upgrade gives the right to that", err)
		})
		loop.Sleep(ctx, apiconn.UntilWoken)
	}
}

// NodesChanged takes all nodes of this cluster, when one of them changed. It is called after Run has begun.
func (a *Address) NodesChanged(nodes []*kube.Node) {
	a.learn(func(k *known) { k.nodes = nodes })
}

// MeshEndpoints is where members dial this cluster; recorded is what its Cluster object says.
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
			return recorded // from an earlier start; better than an address that nobody reaches
		}
	}
	return []string{a.ownAddress()}
}

// now is what is known; nobody changes the slices in it.
func (a *Address) now() known {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.known
}

// learn takes in what was learnt of the Service or of nodes, and has other clusters told.
func (a *Address) learn(change func(*known)) {
	if a.options.Service == "" {
		return
	}
	a.mu.Lock()
	change(&a.known)
	changed := a.known.weigh(time.Now())
	a.mu.Unlock()
	if changed {
		a.options.Log.Info("other clusters are told where to reach this one", "service", a.options.Service, "mesh", a.MeshEndpoints(nil))
		a.Hooks.Changed()
	}
	a.judging.Again()
}

// judge says what is wrong with the address: at once in /readyz where the agent has had none since its start,
// and when the grace is over wherever problems are shown.
func (a *Address) judge(at time.Time) {
	now := a.now()
	switch left := grace - at.Sub(now.since); {
	case !now.asked: // Run has said so
	case now.missing == nil:
		a.news("")
		a.options.Health.WaitFor(owner, "")
		_ = a.options.Problem(nil)
	case left > 0:
		if len(now.endpoints) == 0 && !now.own {
			a.options.Health.WaitFor(owner, fmt.Sprintf("the Service %s %v", a.options.Service, now.missing))
		}
		a.judging.AgainAfter(left)
	default:
		err := fmt.Errorf("%w: after two minutes the Service %s %w", errNoAddress, a.options.Service, now.missing)
		a.options.Health.WaitFor(owner, err.Error())
		_ = a.options.Problem(err)
		if a.news(err.Error()) {
			a.options.Log.Warn("not ready", "error", err)
		}
	}
}

// news says whether the line is another one than last time.
func (a *Address) news(line string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	was := a.logged
	a.logged = line
	return line != "" && line != was
}

// ownAddress is the host:port that the mesh listens on, with a host that others can name.
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

// firstGlobalAddress is the first address of this machine that is not its own alone; in a pod there is one.
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

// ServiceName reads what the agent's options have checked.
func ServiceName(text string) types.NamespacedName {
	namespace, name, _ := strings.Cut(text, "/")
	return types.NamespacedName{Namespace: namespace, Name: name}
}
