// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roster-mesh/roster/agent/loop"
	"github.com/roster-mesh/roster/agent/store"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// ErrRestored is the problem that the Cluster object shows during a freeze.
var ErrRestored = errors.New("the API server of this cluster went back in time, as after a restore, the registry's CRDs were deleted, or another agent publishes as this cluster: nothing is published from here until you have brought back what is missing, stopped the other agent if there is one, and confirm that this is the state to go on from")

// reopenTime is how long a confirmation also covers an epoch that a member shows later.
const reopenTime = time.Hour

// acceptTime is how long a disk that hangs delays the record of the next freeze. What was not accepted is tried again.
const acceptTime = 30 * time.Second

// Options are the options of New. All fields are required.
type Options struct {
	Store *store.Store
	// Annotation reads the confirmation on that object from the API server itself: a value from a cache may be from
	// before the restore.
	Annotation func(context.Context) (string, error)
	// ReadCRD reads a CRD; nil if it does not exist.
	ReadCRD func(ctx context.Context, name string) (*metav1.ObjectMeta, error)
	// Accept makes durable how far the API server is now, and in which epoch this cluster publishes, so that no later
	// start notices the same restore again. It is called after a confirmation, before the record of the freeze is removed.
	Accept func(context.Context) error
	// EpochSeen is the epoch of this cluster that a member has shown and that waits for a higher one; 0 is none.
	EpochSeen func() uint64
	// Problem reports the freeze, for the status of the Cluster object.
	Problem func(error) error
	Log     *slog.Logger
}

// Hooks are called when the gate changes.
type Hooks struct {
	// RecheckOwn must reconcile the own Cluster object and call Confirm.
	RecheckOwn func()
	// Ended is called when a person has confirmed, before Confirm returns.
	Ended func()
}

// Gate knows whether this cluster is frozen. Its methods are safe for concurrent use, except for Resume, which is
// called first.
type Gate struct {
	Hooks Hooks // all are set before Run

	options Options
	record  *loop.Task

	mu          sync.Mutex
	frozen      *freeze   // nil while open
	freezes     int       // how many times a freeze began or ended
	reopenUntil time.Time // after a confirmation: until when a higher epoch may be opened, once
	// uids are the UIDs of the CRDs under which the objects of this cluster were created, by the name of the CRD; ""
	// for one that was not there or is not known.
	uids map[string]types.UID
}

// freeze is the record of a freeze.
type freeze struct {
	// Known says that the annotation has been read since the freeze began. Token is its value then: any other value
	// confirms.
	Known bool   `json:"known"`
	Token string `json:"token"`
}

// New returns an open gate.
func New(o Options) *Gate {
	g := &Gate{options: o}
	g.record = loop.NewTask("record of a restore", o.Log, g.report)
	return g
}

// Run records and reports each freeze and its end, until ctx ends.
func (g *Gate) Run(ctx context.Context) error {
	if g.Frozen() {
		g.record.Trigger()
	}
	return g.record.Run(ctx)
}

// Frozen reports whether this cluster waits for a confirmation.
func (g *Gate) Frozen() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.frozen != nil
}

// Open is the opposite of Frozen. period is another number after each freeze.
func (g *Gate) Open() (period int, open bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.freezes, g.frozen == nil
}

// state is a copy of the present freeze, nil while open.
func (g *Gate) state() *freeze {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.frozen == nil {
		return nil
	}
	now := *g.frozen
	return &now
}

// RolledBack is called when the local API server has an older state of a kind than before. It begins a freeze and
// returns true if that is the sign of a restore. Only the kinds of the registry and Secrets count: others may be stored
// elsewhere, as events often are, or restart their versions whenever the server behind them starts.
func (g *Gate) RolledBack(kind schema.GroupVersionKind) bool {
	if kind.Group != v1alpha1.GroupName && kind != (schema.GroupVersionKind{Version: "v1", Kind: "Secret"}) {
		return false
	}
	g.Freeze()
	return true
}

// Freeze closes the gate until the annotation on the Cluster object changes. It does not block, because a watch of the
// local API server waits for it.
func (g *Gate) Freeze() {
	g.mu.Lock()
	was := g.frozen != nil
	if !was {
		g.frozen, g.reopenUntil = &freeze{}, time.Time{} // which was permitted for an earlier restore
		g.freezes++
	}
	g.mu.Unlock()
	if !was {
		g.options.Log.Error("the local API server went back in time: nothing is published until a person confirms its state")
		g.record.Trigger()
	}
}

// Confirm opens the gate if a person has confirmed.
func (g *Gate) Confirm(ctx context.Context) error {
	if !g.Frozen() {
		return nil
	}
	token, err := g.options.Annotation(ctx)
	if err != nil {
		return fmt.Errorf("read whether the restore is confirmed: %w", err)
	}
	first, ends := g.observe(token)
	if first || ends {
		g.record.Trigger()
	}
	if ends {
		g.options.Log.Warn("the restore of the local API server was confirmed: going on from what it has", "confirmation", token)
		g.Hooks.Ended()
	}
	return nil
}

// observe takes the present value of the annotation, read from the API server. The first value is the one from before
// the freeze was known (first). Another value after that is the confirmation (ends).
func (g *Gate) observe(token string) (first, ends bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.frozen == nil:
		return false, false
	case !g.frozen.Known:
		g.frozen = &freeze{Known: true, Token: token}
		return true, false
	case token == "" || token == g.frozen.Token:
		return false, false
	}
	g.frozen, g.reopenUntil = nil, time.Now().Add(reopenTime)
	g.uids = nil // until the present CRDs are recorded
	g.freezes++
	return false, true
}

// MayReopen reports whether a person has confirmed that this cluster may open an epoch above one that only members
// know. It is true until Reopened, for an hour at most.
func (g *Gate) MayReopen() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return time.Now().Before(g.reopenUntil)
}

// Reopened says that the epoch was opened.
func (g *Gate) Reopened() {
	g.mu.Lock()
	g.reopenUntil = time.Time{}
	g.mu.Unlock()
	g.record.Trigger()
}

// report records a freeze or its end, and reports what to do, or why that cannot be recorded. It names the command only
// once the value from before is recorded: a value that a person sets earlier would be taken for the old one, here or by
// the next start.
func (g *Gate) report(ctx context.Context) error {
	state := g.state()
	if state == nil {
		err := g.recordEnd(ctx)
		if err != nil {
			err = fmt.Errorf("a restart may ask for a confirmation once more, because the state of this cluster cannot be recorded: %w", err)
		}
		return g.options.Problem(err)
	}
	err, problem := g.recordFreeze(ctx, state), ErrRestored
	if err != nil {
		problem = fmt.Errorf("%w; before you can confirm, this must be recorded, and cannot be: %w", ErrRestored, err)
	} else if state.Known {
		problem = fmt.Errorf("%w: %s", ErrRestored, v1alpha1.CommandConfirmRestore)
	}
	_ = g.options.Problem(problem)
	g.Hooks.RecheckOwn() // which reads the annotation
	return err
}

// Collector is the metric roster_restore_unconfirmed.
func (g *Gate) Collector() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "roster_restore_unconfirmed",
		Help: "1 while this cluster publishes nothing because its API server went back in time and nobody has confirmed that.",
	}, func() float64 {
		if g.Frozen() {
			return 1
		}
		return 0
	})
}
