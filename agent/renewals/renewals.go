// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package renewals

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"

	"github.com/roster-mesh/roster/agent/apiconn"
	"github.com/roster-mesh/roster/agent/health"
	"github.com/roster-mesh/roster/agent/informers"
	"github.com/roster-mesh/roster/agent/loop"
	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/kube/exported"
	"github.com/roster-mesh/roster/syncrules"
)

// untilFixed is the wait before a write is tried again that only a person can make possible.
const untilFixed = time.Minute

// Events records Kubernetes events. It does not block.
type Events interface {
	Event(kind schema.GroupVersionKind, about metav1.Object, eventType, reason, message string)
}

// Options are the options of New. Without Namespaces the others are not looked at.
type Options struct {
	Namespaces []string // of the Secrets
	ClusterID  string   // of this cluster
	Client     *kube.Client
	Registry   *informers.Registry
	Gone       func(clusterID string) bool // from the group
	// Proven is how a cluster is reached with the credential that its agent issued: where it is proven that the cluster
	// answers. nil while there is none; Access then says why, and issued whether it was there before.
	Proven  func(clusterID string) *rest.Config
	Access  func(clusterID string) (a apiconn.Access, issued bool)
	Events  Events
	Problem func(error) error // reports what a person has to fix, nil for nothing
	Log     *slog.Logger
}

// Check tells bad which of the namespaces of --renew-namespaces cannot be. agents are those of the agent, in
// one of which the agents of other clusters read Secrets.
func Check(namespaces, agents []string, bad func(flag, format string, args ...any)) {
	for _, name := range namespaces {
		if msgs := validation.IsDNS1123Label(name); len(msgs) > 0 {
			bad("renew-namespaces", "%q is not a namespace name: %s", name, msgs[0])
		}
		for _, own := range agents {
			if name == own {
				bad("renew-namespaces", "%s is the agent's own: name one in which another tool reads Secrets", name)
			}
		}
	}
}

// Renewals keeps credentials in Secrets. It is safe for concurrent use.
type Renewals struct {
	o      Options
	keys   *loop.Loop[types.NamespacedName] // of Secrets that may have to be written
	shelf  shelf
	rights rights
	said   health.Once
	writes writes
	change func(ctx context.Context, was, now *kube.Secret) error
}

// New returns renewals that do nothing before Run.
func New(o Options) *Renewals {
	r := &Renewals{o: o, rights: rights{problem: o.Problem}, writes: writes{now: time.Now}}
	r.keys = loop.New("renewed Secrets", o.Log, r.reconcile)
	r.change = func(ctx context.Context, was, now *kube.Secret) error {
		_, err := o.Client.Secrets(was.Namespace).Change(ctx, was, now)
		return err
	}
	return r
}

// Run keeps the Secrets until ctx ends.
func (r *Renewals) Run(ctx context.Context) error {
	if len(r.o.Namespaces) == 0 {
		return nil
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return r.keys.Run(ctx, 2) })
	for _, namespace := range r.o.Namespaces {
		group.Go(func() error {
			err := r.o.Client.Watch(ctx, kube.WatchOptions{
				GVK: r.o.Client.Secrets(namespace).Kind(), Namespace: namespace, LabelSelector: v1alpha1.LabelExportedFor, Keep: asks,
			}, &received{r, namespace})
			if ctx.Err() != nil {
				return nil //nolint:nilerr // the agent stops
			}
			return err
		})
	}
	return group.Wait()
}

// Changed brings the Secrets with the credential for a cluster up to date.
func (r *Renewals) Changed(clusterID string) {
	if len(r.o.Namespaces) == 0 {
		return
	}
	names := map[string]bool{}
	for _, c := range r.o.Registry.ByID(clusterID) {
		names[c.Name] = true
	}
	for _, secret := range r.shelf.all() {
		if of := secret.Annotations[v1alpha1.AnnotationExportedClusterID]; of == "" || of == clusterID || names[secret.Annotations[v1alpha1.AnnotationRenewCredentialOf]] {
			r.keys.Add(keyOf(secret))
		}
	}
}

// rest clears that Secrets of a namespace may not be written, if none asks for it any more.
func (r *Renewals) rest(namespace string) {
	if r.shelf.none(namespace) {
		r.rights.written(namespace, nil)
	}
}

// reconcile writes the credential into one Secret, if that changes it.
func (r *Renewals) reconcile(ctx context.Context, key types.NamespacedName) error {
	have := r.shelf.get(key)
	if have == nil || have.DeletionTimestamp != nil {
		r.rest(key.Namespace) // a write may have been refused since it went
		return nil
	}
	now, why, err := r.renewed(have)
	switch {
	case err != nil:
		return fmt.Errorf("renew Secret %s: %w", key, err)
	case why != "":
		r.say(have, why)
		return nil
	case now == nil:
		return nil
	}
	wait, tell := r.writes.wait(have, now)
	if tell {
		r.say(have, "somebody else writes this Secret: what the agent writes is undone within a minute, and is written again ever more rarely")
	}
	if wait > 0 {
		r.keys.AddAfter(key, wait)
		return nil
	}
	switch err := r.change(ctx, have, now); {
	case err == nil:
		r.writes.wrote(have, now)
		r.rights.written(key.Namespace, nil)
		r.said.First(string(have.UID), "") // the next reason is told again
		r.o.Log.Info("wrote the credential for a cluster into a Secret that asks for it", "secret", key, "cluster", now.Annotations[v1alpha1.AnnotationRenewCredentialOf])
		return nil
	case errors.Is(err, kube.ErrForbidden):
		r.rights.written(key.Namespace, err)
		r.keys.AddAfter(key, untilFixed)
		return nil
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return nil // the watch delivers what is there, and it is reconciled then
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		r.say(have, "the API server refuses it with the credential") // the answer may quote that
		return nil
	default:
		return fmt.Errorf("renew Secret %s: %w", key, err)
	}
}

// renewed is a Secret as it should be; nil if it is so, or if that is not known yet. why says what keeps a person from having
// it renewed.
func (r *Renewals) renewed(have *kube.Secret) (now *kube.Secret, why string, err error) {
	format := exported.Format(have.Labels[v1alpha1.LabelExportedFor])
	if why := unfit(have, format); why != "" {
		return nil, why, nil
	}
	c, why := r.clusterOf(have)
	if why != "" {
		return nil, why, nil
	}
	id := string(c.Spec.ClusterID)
	access := r.o.Proven(id)
	if access == nil {
		return nil, r.missing(c.Name, id), nil
	}
	data, err := format.Data(c.Name, access)
	if err != nil {
		return nil, "", err
	}
	copied := *have
	copied.Data, copied.Annotations = maps.Clone(have.Data), maps.Clone(have.Annotations)
	if copied.Data == nil {
		copied.Data = map[string][]byte{}
	}
	for name, value := range data {
		if held, ok := have.Data[name]; ok && format.IsGiven(name) || bytes.Equal(held, value) {
			continue
		}
		copied.Data[name], now = value, &copied
	}
	if copied.Annotations[v1alpha1.AnnotationExportedClusterID] != id {
		copied.Annotations[v1alpha1.AnnotationExportedClusterID], now = id, &copied
	}
	return now, "", nil
}

// unfit says why no credential is written into a Secret, whatever cluster it names.
func unfit(have *kube.Secret, format exported.Format) string {
	switch {
	case !format.Known():
		return fmt.Sprintf("its label %s names no format: it must be one of %s", v1alpha1.LabelExportedFor, exported.Formats())
	case syncrules.Owner(have) != "":
		return "it is a copy that a rule made: ask for the credential in a Secret of this cluster's own"
	case have.Type != "" && have.Type != "Opaque":
		return "it is not of type Opaque, as the Secrets of other tools are"
	case have.Immutable != nil && *have.Immutable:
		return "it is immutable"
	}
	return ""
}

// clusterOf is the cluster whose credential a Secret asks for, or why there is none. A cluster that has got another name here
// is known by the clusterID in the Secret.
func (r *Renewals) clusterOf(have *kube.Secret) (*v1alpha1.Cluster, string) {
	name, pinned := have.Annotations[v1alpha1.AnnotationRenewCredentialOf], have.Annotations[v1alpha1.AnnotationExportedClusterID]
	c, err := r.o.Registry.Clusters.Get(name)
	if err != nil || c.Spec.ClusterID == "" {
		c = nil
		if all := r.o.Registry.ByID(pinned); pinned != "" && len(all) > 0 {
			c = all[0]
		}
	}
	switch {
	case c == nil || r.o.Gone(string(c.Spec.ClusterID)):
		return nil, fmt.Sprintf("no cluster %q is in the group, as this cluster lists it: the credential ends by itself", name)
	case string(c.Spec.ClusterID) == r.o.ClusterID:
		return nil, fmt.Sprintf("cluster %s is this cluster itself, which is issued no credential", c.Name)
	case pinned != "" && pinned != string(c.Spec.ClusterID):
		return nil, fmt.Sprintf("cluster %s is another cluster than the one whose credential it holds: if that is meant, delete its annotation %s", c.Name, v1alpha1.AnnotationExportedClusterID)
	}
	return c, ""
}

// missing says why there is no credential for a cluster; "" if it may only take a while.
func (r *Renewals) missing(name, id string) string {
	switch access, issued := r.o.Access(id); access {
	case apiconn.Pending, apiconn.Unreachable:
		return ""
	case apiconn.Disabled:
		return fmt.Sprintf("cluster %s is disabled here", name)
	case apiconn.Ready:
		if issued {
			return ""
		}
		return fmt.Sprintf("the agent of cluster %s has issued no credential for this cluster: is it met in the mesh?", name)
	case apiconn.Missing, apiconn.Invalid, apiconn.Wrong:
	}
	return fmt.Sprintf("there is no working credential for cluster %s here: its Cluster object says why", name)
}

// say sends an event about a Secret, once.
func (r *Renewals) say(have *kube.Secret, why string) {
	if r.said.First(string(have.UID), why) {
		r.o.Log.Warn("a Secret is not renewed", "secret", keyOf(have), "reason", why)
		r.o.Events.Event(r.o.Client.Secrets(have.Namespace).Kind(), have, kube.EventWarning, "CredentialNotRenewed", "the credential in this Secret is not renewed: "+why)
	}
}
