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
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/roster-mesh/roster/agent/budget"
	"github.com/roster-mesh/roster/agent/informers"
	"github.com/roster-mesh/roster/agent/loop"
	"github.com/roster-mesh/roster/agent/payload"
	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/replica"
	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/engine/quota"
)

// ImporterOptions are the options of NewImporter. All fields but Quota are required.
type ImporterOptions struct {
	ClusterID string
	Client    *kube.Client
	Registry  *informers.Registry
	Replica   *replica.Replica
	// Key returns the pinned key of a cluster, and Recorded reports whether that is recorded, if a person pasted its object here.
	Key      func(clusterID string) (ed25519.PublicKey, bool)
	Recorded func(clusterID string) bool
	// Gone reports whether a cluster is no longer in the group.
	Gone func(clusterID string) bool
	// Accepts reports whether the rules of a cluster are in force here.
	Accepts func(clusterID string) bool
	// CredentialRef is the Secret with the credential that a cluster's agent issued to this one, if that is in use.
	CredentialRef func(clusterID string) (ref v1alpha1.NamespacedName, issued bool)
	// Kick makes the mesh connect to a member at once. It is called after its address has changed, seldom.
	Kick func(clusterID string)
	// Parent is who admitted a cluster, as budget.NewCommon has it.
	Parent func(clusterID string) string
	// Slowed is called when what Importer.Slowed says has changed, seldom.
	Slowed   func()
	Rules    Rules
	Quota    quota.Limits // of what is written because of one cluster; zero means the default limits
	Refusals *Refusals
	Log      *slog.Logger
}

// Importer writes what other clusters own from the replica to the local API server.
type Importer struct {
	o        ImporterOptions
	clusters *loop.Loop[replica.Key]
	rules    *loop.Loop[replica.Key] // of which a cluster may have many: no cluster waits for them
	ages     loop.Ages[replica.Key]
	budget   *budget.Budget[replica.Key]
	backlog  *backlog
	redials  *redials
}

// NewImporter returns an importer that does nothing before Run.
func NewImporter(o ImporterOptions) *Importer {
	i := &Importer{o: o}
	i.clusters = loop.New("import of clusters", o.Log, i.importKey)
	i.rules = loop.New("import of rules", o.Log, i.importKey)
	i.budget = budget.New(o.Quota, func(key replica.Key, d time.Duration) { i.of(key).AddAfter(key, d) })
	i.backlog = &backlog{
		self: o.ClusterID, waiting: i.budget.WaitingOf, parent: o.Parent, name: func(id string) string { return o.Registry.Name(id) }, changed: o.Slowed, log: o.Log,
		wake: make(chan struct{}, 1),
	}
	i.redials = newRedials(o.Kick, o.Log)
	return i
}

// Run imports until ctx ends.
func (i *Importer) Run(ctx context.Context) error {
	var tasks errgroup.Group
	tasks.Go(func() error { return i.clusters.Run(ctx, 4) })
	tasks.Go(func() error { return i.rules.Run(ctx, 4) })
	tasks.Go(func() error { return i.redials.members.Run(ctx, 4) })
	tasks.Go(func() error { return i.backlog.run(ctx) })
	return tasks.Wait()
}

// Enqueue compares the copy under a key with the replica.
func (i *Importer) Enqueue(key replica.Key) {
	i.ages.Add(key)
	i.of(key).Add(key)
}

func (i *Importer) of(key replica.Key) *loop.Loop[replica.Key] {
	if key.Kind == replica.KindRule {
		return i.rules
	}
	return i.clusters
}

// EnqueueRulesOf compares every copy of a rule of that cluster with the replica.
func (i *Importer) EnqueueRulesOf(origin string) {
	rules, err := i.o.Registry.Rules.List(labels.SelectorFromSet(labels.Set{v1alpha1.LabelOwnerClusterID: origin}))
	if err != nil {
		return // a selector of one value is valid, and the lister has no other error
	}
	for _, r := range rules {
		i.Enqueue(payload.RuleKey(r.Name))
	}
}

// Collectors are the metrics roster_import_oldest_seconds and roster_import_waiting_objects.
func (i *Importer) Collectors() []prometheus.Collector {
	return []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "roster_import_oldest_seconds",
			Help: "How long the oldest change that was heard of another cluster's objects has not been applied here; 0 for none.",
		}, func() float64 { return i.ages.Oldest(time.Now()).Seconds() }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "roster_import_waiting_objects",
			Help: "Clusters and rules whose newest state is not applied here yet because what may be written here because of it, or of all, is used up.",
		}, func() float64 { return float64(i.budget.Waiting()) }),
	}
}

// importKey makes the local API server match the replica under one key, for what other clusters own. Features and admissions are
// not written: parts read them from the replica.
func (i *Importer) importKey(ctx context.Context, key replica.Key) (err error) {
	end := i.ages.Begin(key)
	switch key.Kind {
	case replica.KindCluster:
		err = i.importCluster(ctx, key)
	case replica.KindRule:
		if err = i.importRule(ctx, key); !errors.Is(err, loop.ErrWaits) { // one that is to be deleted does not come into force before
			i.o.Rules.Settle(key.Name, false)
		}
	case replica.KindFeature, replica.KindAdmission:
	}
	end(err != nil)
	if !errors.Is(err, loop.ErrWaits) {
		i.budget.Settle(key)
	}
	return err
}

// charged writes the object of an entry, and charges the entry's origin with it: each version of it is one of the whole object
// in etcd, with its status and with managedFields, which agents are not sent: so twice its size, as importRule has it, too. The
// error is loop.ErrWaits if it must wait.
func (i *Importer) charged(e replica.Entry, object any, write func() error) error {
	return i.write(e.Origin, e.Key, func() int { return 2 * budget.SizeOf(object) }, write)
}

// write is budget.Write, and notes what waits.
func (i *Importer) write(clusterID string, key replica.Key, size func() int, write func() error) error {
	err := i.budget.Write(clusterID, key, size, write)
	if errors.Is(err, loop.ErrWaits) {
		i.backlog.waits()
	}
	return err
}

// importCluster maintains the copy of one peer's Cluster object. It never deletes it: a cluster that is merely
// unreachable stays listed.
func (i *Importer) importCluster(ctx context.Context, key replica.Key) error {
	id := key.Name
	entry, ok := i.o.Replica.Lookup(key, id)
	if id == i.o.ClusterID || !ok || entry.Status != replica.Live || !i.o.Recorded(id) {
		return nil // its own, not published yet, or a crash could lose its pin: what a person pasted stays as it is
	}
	if i.budget.StillWaits(id, key) {
		return loop.ErrWaits
	}
	published, err := payload.DecodeCluster(id, entry.Payload)
	if err == nil {
		pinned, ok := i.o.Key(id)
		if published.Spec.Mesh == nil || !ok || !pinned.Equal(payload.AsKey(published.Spec.Mesh.PublicKey)) {
			err = fmt.Errorf("%w: cluster of %s: its public key is not the pinned one", payload.ErrPayload, id)
		}
	}
	if err == nil {
		err = i.writeClusterCopy(ctx, entry, published)
	}
	if errors.Is(err, payload.ErrPayload) || apierrors.IsInvalid(err) {
		i.o.Refusals.Refuse(entry, err)
		return nil
	}
	return err
}

// writeClusterCopy makes the copy of a Cluster object match its payload. If the origin changed its name, a copy with
// the new name is created, with the local parts of the old one, before the old one is deleted.
func (i *Importer) writeClusterCopy(ctx context.Context, entry replica.Entry, published *payload.Cluster) error {
	id := entry.Origin
	clusters := i.o.Client.Clusters()
	name, copies := i.localName(id, published.Name), i.o.Registry.ByID(id)
	at := slices.IndexFunc(copies, func(c *v1alpha1.Cluster) bool { return c.Name == name })
	if at < 0 {
		fresh := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
		for _, old := range copies {
			fresh.Labels, fresh.Annotations = payload.MergeMeta(old.Labels, fresh.Labels), payload.MergeMeta(ofKey(old, published), fresh.Annotations)
			fresh.Spec.AuthInfo = cmp.Or(fresh.Spec.AuthInfo, old.Spec.AuthInfo)
		}
		i.fillCopy(fresh, id, published)
		fresh.Annotations[payload.AnnotationEntry] = payload.NumberOf(entry).String()
		return i.charged(entry, fresh, func() error {
			_, err := clusters.Create(ctx, fresh)
			return err // the watch enqueues it again
		})
	}
	for n, have := range copies {
		if n != at && syncrules.Owner(have) == id { // one that a person created is shown as a conflict, for the person to delete
			err := i.write(id, entry.Key, nil, func() error { return clusters.Delete(ctx, have.Name, payload.PreconditionsOf(have)) })
			if err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("remove cluster %s, now named %s: %w", have.Name, name, err)
			}
		}
	}
	have := copies[at]
	want := have.DeepCopy()
	want.Annotations = ofKey(have, published)
	if i.fillCopy(want, id, published); payload.NumberOf(entry).Before(payload.RecordedOn(have)) || payload.SameMeta(have, want) && equality.Semantic.DeepEqual(have.Spec, want.Spec) {
		return nil
	}
	want.Annotations[payload.AnnotationEntry] = payload.NumberOf(entry).String()
	return i.charged(entry, want, func() error {
		if have.Spec.Mesh == nil || !slices.Equal(have.Spec.Mesh.Endpoints, published.Spec.Mesh.Endpoints) {
			defer i.redials.changed(id) // its address has changed
		}
		if _, err := clusters.Change(ctx, have, want); err != nil {
			return fmt.Errorf("update cluster %s: %w", have.Name, err)
		}
		return nil
	})
}

// ofKey are the annotations of a copy that stay. What a person said of the role of a cluster was about its key: another one
// is what its admissions say.
func ofKey(have *v1alpha1.Cluster, published *payload.Cluster) map[string]string {
	out := maps.Clone(have.Annotations)
	if !slices.Equal(payload.RecordedKey(have), published.Spec.Mesh.PublicKey) {
		delete(out, v1alpha1.AnnotationRole)
	}
	return out
}

// localName is the name of a peer's copy here: its own name, unless another cluster has that name already.
func (i *Importer) localName(id, name string) string {
	holder, err := i.o.Registry.Clusters.Get(name)
	if err == nil && string(holder.Spec.ClusterID) != id {
		return payload.ClashName(name, id)
	}
	if clash := payload.ClashName(name, id); err != nil {
		// A copy with the longer name keeps it: names do not change when the holder of the short name goes.
		if c, err := i.o.Registry.Clusters.Get(clash); err == nil && string(c.Spec.ClusterID) == id {
			return clash
		}
	}
	return name
}

// fillCopy sets what the origin published, and the Secret with the issued credential for that cluster.
func (i *Importer) fillCopy(c *v1alpha1.Cluster, id string, p *payload.Cluster) {
	auth := c.Spec.AuthInfo
	if ref, issued := i.o.CredentialRef(id); issued {
		auth.SecretRef = ref
	}
	payload.MarkCopy(c, p.Meta, id)
	c.Spec = *p.Spec.DeepCopy()
	c.Spec.AuthInfo = auth
}

// importRule creates, updates or deletes the copy of a rule, as planCopy decides.
func (i *Importer) importRule(ctx context.Context, key replica.Key) error {
	have, err := i.o.Registry.Rules.Get(key.Name)
	if apierrors.IsNotFound(err) {
		have = nil
	} else if err != nil {
		return fmt.Errorf("read rule %s: %w", key.Name, err)
	}
	if i.ownerWaits(key, have) {
		return loop.ErrWaits
	}
	rules := i.o.Client.Rules()
	plan, entry := planCopy(i.o.ClusterID, have, i.o.Replica.Find(key), i.provenAbsent(have), i.o.Gone, i.o.Accepts)
	i.o.Rules.NameClash(key.Name, clashOf(plan, have, entry))
	switch plan {
	case copyKeep, copyConflict:
		return nil
	case copyDelete:
		err := i.write(syncrules.Owner(have), key, nil, func() error { return rules.Delete(ctx, have.Name, payload.PreconditionsOf(have)) })
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	case copyOrphan:
		return i.orphanRule(ctx, have)
	case copyWrite:
		if have != nil && syncrules.Owner(have) == entry.Origin && payload.NumberOf(entry).Before(payload.RecordedOn(have)) {
			return nil // an old entry, from a member that was cut off for long: the copy is newer
		}
	}
	published, err := payload.DecodeRule(entry.Origin, key.Name, entry.Payload)
	if err != nil {
		i.o.Refusals.Refuse(entry, err)
		return nil
	}
	want := &v1alpha1.ResourceSyncRule{ObjectMeta: metav1.ObjectMeta{Name: key.Name}}
	if have != nil {
		want = have.DeepCopy()
	}
	published.Fill(want, entry.Origin)
	changed := have == nil || !payload.SameMeta(have, want) || !equality.Semantic.DeepEqual(have.Spec, want.Spec)
	want.Annotations[payload.AnnotationEntry] = payload.NumberOf(entry).String()
	if !changed {
		return nil
	}
	err = i.write(entry.Origin, entry.Key, func() int { return 2*budget.SizeOf(want) + watchesCost(have, want) }, func() (err error) {
		if have == nil {
			_, err = rules.Create(ctx, want)
		} else {
			_, err = rules.Change(ctx, have, want)
		}
		return err
	})
	if apierrors.IsInvalid(err) {
		i.o.Refusals.Refuse(entry, err)
		return nil
	}
	return err
}

// ownerWaits reports whether a copy must wait for the turn of its owner, which is asked before the entries of all clusters are looked
// for. A copy stays with its owner while that one publishes the rule. That of one that is gone may become another one's, whose turn it
// need not wait for.
func (i *Importer) ownerWaits(key replica.Key, have *v1alpha1.ResourceSyncRule) bool {
	if have == nil {
		return false
	}
	owner := syncrules.Owner(have)
	entry, held := i.o.Replica.Lookup(key, owner)
	if !held || i.o.Gone(owner) {
		return false
	}
	plan, _ := planCopy(i.o.ClusterID, have, []replica.Entry{entry}, i.provenAbsent(have), i.o.Gone, i.o.Accepts)
	return plan == copyWrite && i.budget.StillWaits(owner, key)
}

// provenAbsent returns the replica's proof of absence, if that is newer than the copy have.
func (i *Importer) provenAbsent(have *v1alpha1.ResourceSyncRule) func(replica.Key, string) bool {
	return func(key replica.Key, origin string) bool {
		n, held := payload.RecordedOn(have), i.o.Replica.Progress(origin)
		newer := held.Completed > n.Epoch || held.Epoch == n.Epoch && held.Sequence >= n.Sequence
		return newer && i.o.Replica.Absent(key, origin)
	}
}

// orphanRule marks a copy of a rule as an orphan: its owner is gone from the group, or its rules are not
// accepted here (see package rules). It drops the
// number of the entry, because an owner that is admitted again counts from the beginning.
func (i *Importer) orphanRule(ctx context.Context, have *v1alpha1.ResourceSyncRule) error {
	want := have.DeepCopy()
	if want.Annotations == nil {
		want.Annotations = map[string]string{}
	}
	want.Annotations[v1alpha1.AnnotationOrphaned] = "true"
	delete(want.Annotations, payload.AnnotationEntry)
	err := i.write(syncrules.Owner(have), payload.RuleKey(have.Name), func() int { return budget.SizeOf(want) }, func() error {
		_, err := i.o.Client.Rules().Change(ctx, have, want)
		return err
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("mark rule %s as orphaned: %w", have.Name, err)
	}
	return nil
}
