// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/roster-mesh/roster/agent/informers"
	"github.com/roster-mesh/roster/agent/loop"
	"github.com/roster-mesh/roster/agent/payload"
	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/replica"
	"github.com/roster-mesh/roster/syncrules"
)

// ImporterOptions are what an importer needs. All fields are required.
type ImporterOptions struct {
	ClusterID string
	Client    *kube.Client
	Registry  *informers.Registry
	Replica   *replica.Replica
	// Key is the pinned key of a cluster.
	Key func(clusterID string) (ed25519.PublicKey, bool)
	// Gone says that a cluster is not in the group any more.
	Gone func(clusterID string) bool
	// CredentialRef is where the credential is that a cluster's agent issued to us, if that is in use.
	CredentialRef func(clusterID string) (ref v1alpha1.NamespacedName, issued bool)
	// Kick has a member met at once, which is to be found elsewhere now.
	Kick     func(clusterID string)
	Rules    Rules
	Refusals *Refusals
	Log      *slog.Logger
}

// Importer makes the local API server say of what other clusters own what the replica says.
type Importer struct {
	o    ImporterOptions
	keys *loop.Loop[replica.Key]
}

// NewImporter returns an importer that does nothing before Run.
func NewImporter(o ImporterOptions) *Importer {
	i := &Importer{o: o}
	i.keys = loop.New("import", o.Log, i.importKey).TrackAge()
	return i
}

// Run imports until ctx ends.
func (i *Importer) Run(ctx context.Context) error { return i.keys.Run(ctx, 4) }

// Look compares the copy of a key with the replica.
func (i *Importer) Look(key replica.Key) { i.keys.Add(key) }

// LookAtRulesOf compares every copy of a rule of that cluster with the replica.
func (i *Importer) LookAtRulesOf(origin string) {
	rules, err := i.o.Registry.Rules.List(labels.SelectorFromSet(labels.Set{v1alpha1.LabelOwnerClusterID: origin}))
	if err != nil {
		return // a selector of one value is valid, and the lister has no other error
	}
	for _, r := range rules {
		i.Look(payload.RuleKey(r.Name))
	}
}

// Collector is the metric of how far behind the importer is.
func (i *Importer) Collector() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "roster_import_oldest_seconds",
		Help: "How long the oldest change that was heard of another cluster's objects has not been applied here; 0 for none.",
	}, func() float64 { return i.keys.Oldest(time.Now()).Seconds() })
}

// importKey makes the local API server say of a key what the replica says, for what
// other clusters own. Features are not written anywhere: the replica is where they are looked up.
func (i *Importer) importKey(ctx context.Context, key replica.Key) error {
	switch key.Kind {
	case replica.KindCluster:
		return i.importCluster(ctx, key)
	case replica.KindRule:
		err := i.importRule(ctx, key)
		i.o.Rules.Settle(key.Name, false)
		return err
	case replica.KindFeature:
	}
	return nil
}

// importCluster keeps the copy of one peer's Cluster object. The copy is never deleted here: a cluster that
// is merely gone stays listed.
func (i *Importer) importCluster(ctx context.Context, key replica.Key) error {
	id := key.Name
	if id == i.o.ClusterID {
		return nil
	}
	entry, ok := i.o.Replica.Lookup(key, id)
	if !ok || entry.Status != replica.Live {
		return nil // not heard of by the mesh: what a person pasted stays as it is
	}
	said, err := payload.DecodeCluster(id, entry.Payload)
	if err == nil {
		pinned, ok := i.o.Key(id)
		if said.Spec.Mesh == nil || !ok || !pinned.Equal(payload.AsKey(said.Spec.Mesh.PublicKey)) {
			err = fmt.Errorf("%w: cluster of %s: its public key is not the pinned one", payload.ErrPayload, id)
		}
	}
	if err == nil {
		err = i.writeClusterCopy(ctx, entry, said)
	}
	if errors.Is(err, payload.ErrPayload) || apierrors.IsInvalid(err) {
		i.o.Refusals.Refuse(entry, err)
		return nil
	}
	return err
}

// writeClusterCopy makes one Cluster object here say what the payload says, under the name that it has here.
// An origin that changed its name gets a new copy, with what is local in the old one, before that goes.
func (i *Importer) writeClusterCopy(ctx context.Context, entry replica.Entry, said *payload.Cluster) error {
	id := entry.Origin
	clusters := i.o.Client.Clusters()
	name, copies := i.localName(id, said.Name), i.o.Registry.ByID(id)
	at := slices.IndexFunc(copies, func(c *v1alpha1.Cluster) bool { return c.Name == name })
	if at < 0 {
		fresh := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
		for _, old := range copies {
			fresh.Labels, fresh.Annotations = payload.MergeMeta(old.Labels, fresh.Labels), payload.MergeMeta(old.Annotations, fresh.Annotations)
			fresh.Spec.AuthInfo = cmp.Or(fresh.Spec.AuthInfo, old.Spec.AuthInfo)
		}
		i.fillCopy(fresh, id, said)
		fresh.Annotations[payload.AnnotationEntry] = payload.NumberOf(entry).String()
		_, err := clusters.Create(ctx, fresh)
		return err // its arrival in the watch is the next look
	}
	for n, have := range copies {
		if n != at && syncrules.Owner(have) == id { // one that a person made is shown as a conflict, and theirs to delete
			if err := clusters.Delete(ctx, have.Name, payload.Exactly(have)); err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("remove cluster %s, now named %s: %w", have.Name, name, err)
			}
		}
	}
	have := copies[at]
	want := have.DeepCopy()
	if i.fillCopy(want, id, said); payload.NumberOf(entry).Before(payload.RecordedOn(have)) || payload.SameMeta(have, want) && equality.Semantic.DeepEqual(have.Spec, want.Spec) {
		return nil
	}
	want.Annotations[payload.AnnotationEntry] = payload.NumberOf(entry).String()
	if have.Spec.Mesh == nil || !slices.Equal(have.Spec.Mesh.Endpoints, said.Spec.Mesh.Endpoints) {
		defer i.o.Kick(id) // it is to be met elsewhere
	}
	if _, err := clusters.Change(ctx, have, want); err != nil {
		return fmt.Errorf("update cluster %s: %w", have.Name, err)
	}
	return nil
}

// localName is the name of a peer's copy here: its own, unless another cluster holds that name already.
func (i *Importer) localName(id, name string) string {
	holder, err := i.o.Registry.Clusters.Get(name)
	if err == nil && string(holder.Spec.ClusterID) != id {
		return payload.ClashName(name, id)
	}
	if clash := payload.ClashName(name, id); err != nil {
		// Once a copy has the longer name it keeps it while it exists: names do not jump when a holder goes.
		if c, err := i.o.Registry.Clusters.Get(clash); err == nil && string(c.Spec.ClusterID) == id {
			return clash
		}
	}
	return name
}

// fillCopy gives a copy what its origin says, and where our own credential for that cluster is kept.
func (i *Importer) fillCopy(c *v1alpha1.Cluster, id string, p *payload.Cluster) {
	auth := c.Spec.AuthInfo
	if ref, issued := i.o.CredentialRef(id); issued {
		auth.SecretRef = ref
	}
	payload.Mark(c, p.Meta, id)
	c.Spec = *p.Spec.DeepCopy()
	c.Spec.AuthInfo = auth
}

// importRule keeps the copy of a rule, or proves that there is none to keep.
func (i *Importer) importRule(ctx context.Context, key replica.Key) error {
	have, err := i.o.Registry.Rules.Get(key.Name)
	if apierrors.IsNotFound(err) {
		have = nil
	} else if err != nil {
		return fmt.Errorf("read rule %s: %w", key.Name, err)
	}
	rules := i.o.Client.Rules()
	plan, entry := planCopy(i.o.ClusterID, have, i.o.Replica.Find(key), i.provenGone(have), i.o.Gone)
	i.o.Rules.NameClash(key.Name, clashOf(plan, have, entry))
	switch plan {
	case copyKeep, copyConflict:
		return nil
	case copyDelete:
		err := rules.Delete(ctx, have.Name, payload.Exactly(have))
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	case copyOrphan:
		return i.orphanRule(ctx, have)
	case copyWrite:
		if have != nil && syncrules.Owner(have) == entry.Origin && payload.NumberOf(entry).Before(payload.RecordedOn(have)) {
			return nil // from a member that was away for long; a newer one made the copy
		}
	}
	said, err := payload.DecodeRule(entry.Origin, key.Name, entry.Payload)
	if err != nil {
		i.o.Refusals.Refuse(entry, err)
		return nil
	}
	want := &v1alpha1.ResourceSyncRule{ObjectMeta: metav1.ObjectMeta{Name: key.Name}}
	if have != nil {
		want = have.DeepCopy()
	}
	payload.Mark(want, said.Meta, entry.Origin)
	want.Spec = said.Spec
	changed := have == nil || !payload.SameMeta(have, want) || !equality.Semantic.DeepEqual(have.Spec, want.Spec)
	want.Annotations[payload.AnnotationEntry] = payload.NumberOf(entry).String()
	if have == nil {
		_, err = rules.Create(ctx, want)
	} else if changed {
		_, err = rules.Change(ctx, have, want)
	}
	if apierrors.IsInvalid(err) {
		i.o.Refusals.Refuse(entry, err)
		return nil
	}
	return err
}

// provenGone is the replica's proof of absence, as far as it is newer than the copy have.
func (i *Importer) provenGone(have *v1alpha1.ResourceSyncRule) func(replica.Key, string) bool {
	return func(key replica.Key, origin string) bool {
		n, held := payload.RecordedOn(have), i.o.Replica.Progress(origin)
		newer := held.Completed > n.Epoch || held.Epoch == n.Epoch && held.Sequence >= n.Sequence
		return newer && i.o.Replica.Absent(key, origin)
	}
}

// A rule whose owner is gone from the group stays where it is, as an orphan, and is not in force: what it has copied
// stays as it is. To obey it would leave a cluster that was removed with power over the others; to delete it would
// undo, all at once, what the others depend on.

// orphanRule marks a copy of a rule. The number of its entry goes: whoever is admitted again counts anew.
func (i *Importer) orphanRule(ctx context.Context, have *v1alpha1.ResourceSyncRule) error {
	want := have.DeepCopy()
	if want.Annotations == nil {
		want.Annotations = map[string]string{}
	}
	want.Annotations[v1alpha1.AnnotationOrphaned] = "true"
	delete(want.Annotations, payload.AnnotationEntry)
	if _, err := i.o.Client.Rules().Change(ctx, have, want); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("mark rule %s as orphaned: %w", have.Name, err)
	}
	return nil
}
