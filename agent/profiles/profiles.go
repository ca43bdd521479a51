// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package profiles

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/roster-mesh/roster/agent/directory"
	"github.com/roster-mesh/roster/agent/health"
	"github.com/roster-mesh/roster/agent/informers"
	"github.com/roster-mesh/roster/agent/loop"
	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// Events records Kubernetes events. It does not block.
type Events interface {
	Event(kind schema.GroupVersionKind, about metav1.Object, eventType, reason, message string)
}

// Options are the options of New. Without Flags.ClusterProfiles the others are not looked at.
type Options struct {
	Flags
	ClusterID string // of this cluster
	Own       string // the agent's namespace, of the profiles if Flags names none
	Network   string // the network that consumers are in
	Client    *kube.Client
	Registry  *informers.Registry
	Directory *directory.Directory
	// CredentialRef is the Secret with the credential that a cluster's agent issued to this one, if that is in use.
	CredentialRef func(clusterID string) (ref v1alpha1.NamespacedName, issued bool)
	// Frozen reports whether nothing may be concluded from what the API server lacks.
	Frozen  func() bool
	Events  Events
	Problem func(error) error // reports what a person has to fix, nil for nothing
	Now     func() time.Time  // by the clock of the API server
	Log     *slog.Logger
}

// Profiles publishes ClusterProfiles and ClusterProperties. It is safe for concurrent use.
type Profiles struct {
	o          Options
	names      *loop.Loop[string] // of profiles that may have to change
	shelf      shelf
	failures   failures
	said       health.Once
	properties []*property
	objects    func(schema.GroupVersionKind) writer
}

// writer writes profiles.
type writer interface {
	Create(ctx context.Context, p *clusterProfile) (*clusterProfile, error)
	Change(ctx context.Context, was, now *clusterProfile) (*clusterProfile, error)
	ChangeStatus(ctx context.Context, was, now *clusterProfile) (*clusterProfile, error)
	Delete(ctx context.Context, name string, preconditions *metav1.Preconditions) error
}

// New returns profiles that do nothing before Run.
func New(o Options) *Profiles {
	o.Namespace = cmp.Or(o.Namespace, o.Own)
	p := &Profiles{o: o, failures: failures{problem: o.Problem, held: map[string]string{}, freed: map[string]bool{}}}
	p.shelf.serve(schema.GroupVersionKind{})
	p.names = loop.New("cluster profiles", o.Log, p.reconcile)
	p.objects = func(kind schema.GroupVersionKind) writer {
		return kube.ObjectsOf[clusterProfile](o.Client, kind, "clusterprofiles", o.Namespace)
	}
	p.properties = []*property{newProperty(p, propertyCluster, o.ClusterID), newProperty(p, propertyClusterSet, o.ClusterSet)}
	return p
}

// Run publishes until ctx ends.
func (p *Profiles) Run(ctx context.Context) error {
	if !p.o.ClusterProfiles {
		return nil
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return p.names.Run(ctx, 2) })
	group.Go(func() error {
		return follow(ctx, p.o.Client, profileKinds(), kube.WatchOptions{Namespace: p.o.Namespace}, received{p})
	})
	for _, one := range p.properties {
		group.Go(func() error { return one.run(ctx) })
	}
	return group.Wait()
}

// Changed brings the profile of a cluster up to date.
func (p *Profiles) Changed(clusterID string) {
	if !p.o.ClusterProfiles {
		return
	}
	for _, c := range p.o.Registry.ByID(clusterID) {
		p.names.Add(c.Name)
	}
	for _, name := range p.shelf.about(clusterID) {
		p.names.Add(name)
	}
}

// All brings all profiles up to date, as after a freeze.
func (p *Profiles) All() {
	if !p.o.ClusterProfiles {
		return
	}
	all, err := p.o.Registry.Clusters.List(labels.Everything())
	if err != nil {
		return // the lister reads memory
	}
	for _, c := range all {
		p.Changed(string(c.Spec.ClusterID))
	}
	p.shelf.mu.Lock()
	defer p.shelf.mu.Unlock()
	for name := range p.shelf.held {
		p.names.Add(name)
	}
}

// received is the sink of the profiles.
type received struct{ p *Profiles }

func (r received) Serve(kind schema.GroupVersionKind) {
	r.p.failures.reset() // without the CRD nothing is wrong
	if r.p.shelf.serve(kind); kind.Empty() {
		return
	}
	r.p.o.Log.Info("publishing ClusterProfiles", "version", kind.Version, "namespace", r.p.o.Namespace)
}

func (r received) Replace(objs []*unstructured.Unstructured, _ string) {
	all := make([]*clusterProfile, 0, len(objs))
	for _, u := range objs {
		if profile := r.decode(u); profile != nil {
			all = append(all, profile)
		}
	}
	for _, name := range r.p.shelf.replace(all) {
		r.p.names.Add(name)
	}
	r.p.All()
}

func (r received) Upsert(u *unstructured.Unstructured) {
	if profile := r.decode(u); profile != nil {
		r.p.shelf.put(profile.Name, profile)
		r.p.names.Add(profile.Name)
	}
}

func (r received) Delete(_, name string, _ *unstructured.Unstructured) {
	r.p.shelf.put(name, nil)
	r.p.names.Add(name)
}

func (r received) Health(err error) {
	switch {
	case err == nil:
		r.p.failures.watched("")
	case errors.Is(err, kube.ErrForbidden):
		r.p.failures.watched(r.p.fixRights())
	}
}

// decode returns a profile, or nil for one that cannot be one of ours.
func (r received) decode(u *unstructured.Unstructured) *clusterProfile {
	profile, err := kube.Decode[clusterProfile](u)
	if err == nil {
		return profile
	}
	if r.p.said.First(string(u.GetUID()), err.Error()) {
		r.p.o.Log.Warn("a ClusterProfile cannot be read and is left alone", "name", u.GetName(), "error", err)
	}
	// It holds its name, as one of somebody else does.
	return &clusterProfile{ObjectMeta: metav1.ObjectMeta{Name: u.GetName(), UID: u.GetUID()}}
}

// cluster returns the Cluster object that the profile of that name is about; nil if there should be no such profile.
func (p *Profiles) cluster(name string) *v1alpha1.Cluster {
	c, err := p.o.Registry.Clusters.Get(name)
	if err != nil {
		return nil
	}
	id := string(c.Spec.ClusterID)
	if id == "" || len(validation.IsValidLabelValue(id)) > 0 || p.o.Directory.Gone(id) || !p.counts(id, name) {
		return nil
	}
	return c
}

// counts reports whether the Cluster object of that name is the one that counts for a cluster.
func (p *Profiles) counts(id, name string) bool {
	all := p.o.Registry.ByID(id)
	return len(all) > 0 && all[0].Name == name
}

// reconcile creates, updates or deletes the profile of that name.
func (p *Profiles) reconcile(ctx context.Context, name string) error {
	have, kind, listed := p.shelf.get(name)
	if !listed || p.failures.wait(name) {
		return nil
	}
	c := p.cluster(name)
	return p.outcome(name, c, p.write(ctx, p.objects(kind), c, have))
}

// write creates, updates or deletes a profile: have, which should be about c. Either may be nil.
func (p *Profiles) write(ctx context.Context, to writer, c *v1alpha1.Cluster, have *clusterProfile) error {
	switch {
	case c == nil && have == nil:
		return nil
	case have == nil:
		return p.create(ctx, to, c)
	case have.DeletionTimestamp != nil:
		return nil // the watch says when that changes
	case have.Spec.ClusterManager.Name != Manager:
		if c != nil {
			p.say(c, string(have.UID), fmt.Sprintf("ClusterProfile %s/%s is of the manager %q: it is left alone, and this cluster has none by Roster", p.o.Namespace, have.Name, have.Spec.ClusterManager.Name))
		}
		return nil
	case c == nil:
		return p.remove(ctx, to, have)
	case isOfAnother(have, string(c.Spec.ClusterID)):
		if p.o.Frozen() {
			return nil
		}
		return p.delete(ctx, to, have) // the watch delivers that, and it is created
	}
	return p.update(ctx, to, c, have)
}

func labelsOf(c *v1alpha1.Cluster) map[string]string {
	return map[string]string{labelManager: Manager, labelMemberID: string(c.Spec.ClusterID)}
}

// create creates the profile of a cluster. The display name is the user's from then on.
func (p *Profiles) create(ctx context.Context, to writer, c *v1alpha1.Cluster) error {
	made, err := to.Create(ctx, &clusterProfile{
		ObjectMeta: metav1.ObjectMeta{Name: c.Name, Namespace: p.o.Namespace, Labels: labelsOf(c)},
		Spec:       profileSpec{DisplayName: c.Name, ClusterManager: clusterManager{Manager}},
	})
	if apierrors.IsNotFound(err) && !errors.Is(err, kube.ErrKindUnknown) {
		return errNamespace
	}
	if err != nil {
		return err
	}
	return p.update(ctx, to, c, made)
}

// update writes what differs. have is not changed.
func (p *Profiles) update(ctx context.Context, to writer, c *v1alpha1.Cluster, have *clusterProfile) error {
	now := *have
	now.Labels = maps.Clone(have.Labels)
	if now.Labels == nil {
		now.Labels = map[string]string{}
	}
	if maps.Copy(now.Labels, labelsOf(c)); !maps.Equal(now.Labels, have.Labels) {
		stored, err := to.Change(ctx, have, &now)
		if err != nil {
			return err
		}
		have, now = stored, *stored
	}
	f := facts{own: string(c.Spec.ClusterID) == p.o.ClusterID, network: p.o.Network, clusterSet: p.o.ClusterSet, route: p.routeTo(c), now: p.o.Now()}
	now.Status = statusOf(c, f, have.Status, have.Generation)
	if equality.Semantic.DeepEqual(now.Status, have.Status) || p.shelf.isWritten(have, now.Status) {
		return nil
	}
	stored, err := to.ChangeStatus(ctx, have, &now)
	if err == nil {
		p.shelf.remember(c.Name, stored.ResourceVersion, now.Status)
	}
	return err
}

// routeTo is how a cluster is reached by who may read the Secret that it names; nil while that is not known. More people may
// edit the Cluster object than may read Secrets: a credential that was issued to the agent goes with the address alone that
// the cluster has signed, and the object cannot name one. A pasted credential goes with no CA that nobody here vouches for.
func (p *Profiles) routeTo(c *v1alpha1.Cluster) *directory.Route {
	id := string(c.Spec.ClusterID)
	route, err := p.o.Directory.Route(id)
	known := err == nil && c.Spec.AuthInfo.SecretRef.Namespace != p.o.Directory.PrivateNamespace
	if ref, issued := p.o.CredentialRef(id); issued {
		route.Secret, known = ref, err == nil && route.Signed
	} else if !route.Vouched {
		route.Endpoints = v1alpha1.WithoutCAs(route.Endpoints)
	}
	if !known {
		return nil
	}
	return &route
}

// remove deletes a profile of ours if it is known that its cluster is gone, or that it is listed under another name.
func (p *Profiles) remove(ctx context.Context, to writer, have *clusterProfile) error {
	id := have.Labels[labelMemberID]
	if id == "" || p.o.Frozen() {
		return nil
	}
	renamed := len(p.o.Registry.ByID(id)) > 0 && !p.counts(id, have.Name)
	if !renamed && !p.o.Directory.Forgotten(id) {
		return nil
	}
	return p.delete(ctx, to, have)
}

// isOfAnother reports whether a profile was made for another cluster, one that had this name before. What others have added
// to it is about that one. The label alone may have been edited.
func isOfAnother(have *clusterProfile, id string) bool {
	i := slices.IndexFunc(have.Status.Properties, func(p profileProperty) bool { return p.Name == propertyCluster })
	label := have.Labels[labelMemberID]
	return i >= 0 && have.Status.Properties[i].Value != id && label != "" && label != id
}

func (p *Profiles) delete(ctx context.Context, to writer, have *clusterProfile) error {
	err := to.Delete(ctx, have.Name, &metav1.Preconditions{UID: &have.UID, ResourceVersion: &have.ResourceVersion})
	if err == nil {
		p.o.Log.Info("deleted the ClusterProfile of a cluster that is gone, or has another name", "name", have.Name, "clusterID", have.Labels[labelMemberID])
	}
	return err
}

// say sends an event about a Cluster, once.
func (p *Profiles) say(c *v1alpha1.Cluster, uid, message string) {
	if p.said.First(uid, message) {
		p.o.Log.Warn("a ClusterProfile is not published", "cluster", c.Name, "reason", message)
		p.o.Events.Event(v1alpha1.SchemeGroupVersion.WithKind("Cluster"), c, kube.EventWarning, "ProfileNotPublished", message)
	}
}
