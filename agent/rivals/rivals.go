// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package rivals

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/agent/health"
	"github.com/roster-mesh/roster/agent/loop"
	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/mesh/trust"
)

const (
	// settle is how long a member must say so until it is shown: a cluster that gets a new key is admitted under that by some
	// before all have heard that it left under the old one.
	settle = 10 * time.Second
	// maxShown bounds what is remembered and shown, maxListed what one message lists.
	maxShown, maxListed = 64, 8
)

// Trust is the table of pins: a [trust.Table].
type Trust interface {
	Rivals() []trust.Admission
	Share(total int, wants map[string]int) map[string]int
}

// Events records Kubernetes events. It does not block.
type Events interface {
	Event(kind schema.GroupVersionKind, about metav1.Object, eventType, reason, message string)
}

// Options are the options of New. All fields are required.
type Options struct {
	ClusterID string // of this cluster
	Trust     Trust
	Kind      schema.GroupVersionKind // of Cluster objects
	// Clusters are the Cluster objects here that have a clusterID; Name is what that is called here.
	Clusters func(clusterID string) []*v1alpha1.Cluster
	Name     func(clusterID string) string
	Events   Events
	Log      *slog.Logger
}

// Hooks are called from the goroutine of Run.
type Hooks struct {
	// Shown is called when what is said of a cluster has changed.
	Shown func(clusterID string)
}

// Rivals remembers which members admit others under another key. It is safe for concurrent use.
type Rivals struct {
	Hooks Hooks // set before Run

	o     Options
	task  *loop.Task
	once  health.Once
	since map[string]time.Time // by author, clusterID and key: when Run first saw it
	shown atomic.Pointer[[]trust.Admission]
}

// New returns rivals of nobody yet.
func New(o Options) *Rivals {
	r := &Rivals{Hooks: Hooks{Shown: func(string) {}}, o: o, since: map[string]time.Time{}}
	r.shown.Store(&[]trust.Admission{})
	r.task = loop.NewTask("other keys", o.Log, loop.WithPause(func(context.Context) error { r.look(); return nil }))
	return r
}

// Run looks whenever something has changed, until ctx ends.
func (r *Rivals) Run(ctx context.Context) error {
	r.task.Trigger()
	return r.task.Run(ctx)
}

// Changed is told that an admission has changed, or a pin. It does not block.
func (r *Rivals) Changed() { r.task.Trigger() }

// Of says who admits a cluster under another key, and what to do; "" for nobody.
func (r *Rivals) Of(clusterID string) string {
	return r.text(slices.DeleteFunc(slices.Clone(*r.shown.Load()), func(a trust.Admission) bool { return a.ClusterID != clusterID }))
}

// All says so of all clusters.
func (r *Rivals) All() string { return r.text(*r.shown.Load()) }

func (r *Rivals) text(all []trust.Admission) string {
	if len(all) == 0 {
		return ""
	}
	var lines []string
	for _, a := range all[:min(len(all), maxListed)] {
		whom := "cluster " + r.o.Name(a.ClusterID) + " (" + a.ClusterID + ")"
		if a.ClusterID == r.o.ClusterID {
			whom = "this cluster"
		}
		lines = append(lines, fmt.Sprintf("cluster %s (%s) admits %s under another key, %s", r.o.Name(a.Author), a.Author, whom, trust.Fingerprint(a.PublicKey)))
	}
	if more := len(all) - len(lines); more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(lines, "; ") + ". The key that is pinned stays. Compare it with that in the cluster itself: if it is the same, agentctl remove " +
		r.o.Name(all[0].Author) + " (who brought whom: agentctl members --tree); if not, remove who admitted the pinned one"
}

// look finds out which have lasted, and tells of those that are new.
func (r *Rivals) look() {
	now, since := time.Now(), map[string]time.Time{}
	var shown []trust.Admission
	all := r.bounded(r.o.Trust.Rivals())
	for _, a := range all {
		key := a.Author + "/" + a.ClusterID + "/" + trust.Fingerprint(a.PublicKey)
		if since[key] = now; !r.since[key].IsZero() {
			since[key] = r.since[key]
		}
		if now.Sub(since[key]) >= settle {
			shown = append(shown, a)
		}
	}
	r.since = since
	was := *r.shown.Swap(&shown)
	for _, id := range differ(was, shown) {
		r.Hooks.Shown(id)
	}
	r.tell(shown)
	if len(all) > 0 { // a removal of such a key ends no pin, so nobody tells of that
		r.task.TriggerAfter(settle)
	}
}

// bounded keeps as many as are shown: of each author as many as its part, by who admitted whom.
func (r *Rivals) bounded(all []trust.Admission) []trust.Admission {
	wants := map[string]int{}
	for _, a := range all {
		wants[a.Author]++
	}
	part := r.o.Trust.Share(maxShown, wants)
	kept := slices.DeleteFunc(all, func(a trust.Admission) bool { part[a.Author]--; return part[a.Author] < 0 })
	return kept[:min(len(kept), maxShown)]
}

// differ lists the clusters of which one list says something else than the other, ordered.
func differ(a, b []trust.Admission) (ids []string) {
	for _, both := range [][2][]trust.Admission{{a, b}, {b, a}} {
		for _, n := range both[0] {
			if !slices.ContainsFunc(both[1], func(o trust.Admission) bool {
				return o.Author == n.Author && o.ClusterID == n.ClusterID && o.PublicKey.Equal(n.PublicKey)
			}) {
				ids = append(ids, n.ClusterID)
			}
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// tell makes one event for each member that does so, on the object of the first cluster that it admits: it can make up as many keys as
// it likes.
func (r *Rivals) tell(shown []trust.Admission) {
	for _, a := range shown {
		of := r.o.Clusters(a.ClusterID)
		if len(of) == 0 || !r.once.First(a.Author, "told") {
			continue
		}
		r.o.Log.Warn("a member admits a cluster under another key than the one that is pinned, which stays", "by", r.o.Name(a.Author), "byClusterID", a.Author, "clusterID", a.ClusterID, "key", trust.Fingerprint(a.PublicKey))
		for _, c := range of {
			r.o.Events.Event(r.o.Kind, c, kube.EventWarning, "OtherKeyAdmitted", r.text([]trust.Admission{a}))
		}
	}
}
