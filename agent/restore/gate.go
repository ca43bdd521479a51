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

// ErrRestored is what the Cluster object says meanwhile.
var ErrRestored = errors.New("the API server of this cluster went back in time, as after a restore, the registry's CRDs were deleted, or another agent publishes as this cluster: nothing is published from here until you have brought back what is missing, stopped the other agent if there is one, and confirm that this is the state to go on from")

// reopenTime is for how long a confirmation also speaks for an epoch that a member tells of only later.
const reopenTime = time.Hour

// Options are what a gate needs. All fields are required.
type Options struct {
	Store *store.Store
	// Name is that of the cluster's own Cluster object, "" before it has one.
	Name func() string
	// Annotation reads the confirmation on that object from the API server itself: what was read before the restore is no
	// word of anybody's on it.
	Annotation func(context.Context) (string, error)
	// Definition reads a CRD; nil when there is none.
	Definition func(ctx context.Context, name string) (*metav1.ObjectMeta, error)
	// Problem is what is wrong, for the status of the Cluster object.
	Problem func(error) error
	Log     *slog.Logger
}

// Hooks are whom the gate wakes.
type Hooks struct {
	// Look has the own Cluster object looked at, where a confirmation would be, and Confirm called.
	Look func()
	// Ended is called when a person has confirmed, before Confirm returns.
	Ended func()
}

// Gate says whether this cluster waits for the confirmation of a restore. Its methods may be called by any goroutine, but
// for Resume, which comes first.
type Gate struct {
	Hooks Hooks // all are set before Run

	options Options
	record  *loop.Task

	mu      sync.Mutex
	frozen  *freeze   // nil when it does not wait
	freezes int       // how often it began or ended
	reopens time.Time // confirmed: until then a higher epoch may be opened, once
	// uids are those of the CRDs that the objects of this cluster were made under, by the CRD's name; "" for one that is not
	// known, or that was not there.
	uids map[string]types.UID
}

// freeze is what is recorded while this cluster waits.
type freeze struct {
	// Known says that the API server has been asked what the annotation is since; Token is that: another one
	// confirms.
	Known bool   `json:"known"`
	Token string `json:"token"`
}

// New returns a gate that is open.
func New(o Options) *Gate {
	g := &Gate{options: o}
	g.record = loop.NewTask("record of a restore", o.Log, g.tell)
	return g
}

// Run records and shows each freeze and its end until ctx ends.
func (g *Gate) Run(ctx context.Context) error {
	if g.Frozen() {
		g.record.Again()
	}
	return g.record.Run(ctx)
}

// Frozen says that this cluster waits for a confirmation.
func (g *Gate) Frozen() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.frozen != nil
}

// Open says that it does not, and tells one such time from another.
func (g *Gate) Open() (period int, open bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.freezes, g.frozen == nil
}

// state is what to record of it.
func (g *Gate) state() *freeze {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.frozen == nil {
		return nil
	}
	now := *g.frozen
	return &now
}

// WentBack hears that the local API server has less of a kind than before, and says whether that is a restore. It goes by
// the registry's kinds and Secrets: others may be stored apart, as events often are, or forget where they were whenever
// the program that serves them starts.
func (g *Gate) WentBack(kind schema.GroupVersionKind) bool {
	if kind.Group != v1alpha1.GroupName && kind != (schema.GroupVersionKind{Version: "v1", Kind: "Secret"}) {
		return false
	}
	g.Freeze()
	return true
}

// Freeze closes the gate until the annotation on the Cluster object changes. That is recorded, since to start
// again is no confirmation. It does not block: a watch of the local API server waits for it.
func (g *Gate) Freeze() {
	g.mu.Lock()
	was := g.frozen != nil
	if !was {
		g.frozen = &freeze{}
		g.freezes++
	}
	g.mu.Unlock()
	if !was {
		g.options.Log.Error("the local API server lacks what it had: nothing is published until that is confirmed")
		g.record.Again()
	}
}

// Confirm opens the gate when the person in charge has said so.
func (g *Gate) Confirm(ctx context.Context) error {
	if !g.Frozen() {
		return nil
	}
	token, err := g.options.Annotation(ctx)
	if err != nil {
		return fmt.Errorf("read whether the restore is confirmed: %w", err)
	}
	first, ends := g.hear(token)
	if first || ends {
		g.record.Again()
	}
	if ends {
		g.options.Log.Warn("the restore of the local API server was confirmed: going on from what it has", "confirmation", token)
		g.Hooks.Ended()
	}
	return nil
}

// hear takes in what the annotation is now, as read from the API server: the first time, what was there before
// anybody could know, and then, when it is another one, the confirmation. It says which of these it was.
func (g *Gate) hear(token string) (first, ends bool) {
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
	g.frozen, g.reopens = nil, time.Now().Add(reopenTime)
	g.uids = nil // before what is there now is recorded
	g.freezes++
	return false, true
}

// MayReopen says whether a person has confirmed that an epoch which members know of and this cluster does not is to
// be followed by another one. That holds until Reopened, and for an hour.
func (g *Gate) MayReopen() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return time.Now().Before(g.reopens)
}

// Reopened says that the epoch was opened.
func (g *Gate) Reopened() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.reopens = time.Time{}
}

// tell says what to do about a freeze, once it is known what the annotation was: what somebody has it say before that
// would be taken for what was there. Without a freeze it says no more. Then it records how things are.
func (g *Gate) tell(ctx context.Context) error {
	state := g.state()
	var problem error
	switch {
	case state == nil:
	case !state.Known:
		problem = ErrRestored
	default:
		problem = fmt.Errorf(`%w: kubectl annotate --overwrite cluster %s %s="$(date -u +%%FT%%TZ)"`,
			ErrRestored, g.options.Name(), v1alpha1.AnnotationConfirmRestore)
	}
	_ = g.options.Problem(problem)
	if state != nil {
		g.Hooks.Look() // which reads what the annotation is, and it may be another one by now
	}
	return g.write(ctx, state)
}

// Collector is the metric of it.
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
