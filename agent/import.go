// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/replica"
	"github.com/roster-mesh/roster/syncrules"
)

// importKey is the importer: it makes the local API server say of a key what the replica says, for what
// other clusters own. Features are not written anywhere: the replica is where they are looked up.
func (s *session) importKey(ctx context.Context, key replica.Key) error {
	switch key.Kind {
	case replica.KindCluster:
		return s.importCluster(ctx, key)
	case replica.KindRule:
		err := s.importRule(ctx, key)
		s.settleRule(key.Name, false)
		return err
	case replica.KindFeature:
	}
	return nil
}

// importCluster keeps the copy of one peer's Cluster object. The copy is never deleted here: a cluster that
// is merely gone stays listed.
func (s *session) importCluster(ctx context.Context, key replica.Key) error {
	id := key.Name
	if id == s.clusterID {
		return nil
	}
	entry, ok := s.replica.Lookup(key, id)
	if !ok || entry.Status != replica.Live {
		return nil // not heard of by the mesh: what a person pasted stays as it is
	}
	payload, err := decodeCluster(id, entry.Payload)
	if err == nil {
		pinned, ok := s.trust.Key(id)
		if payload.Spec.Mesh == nil || !ok || !pinned.Equal(asKey(payload.Spec.Mesh.PublicKey)) {
			err = fmt.Errorf("%w: cluster of %s: its public key is not the pinned one", ErrPayload, id)
		}
	}
	if err == nil {
		err = s.writeClusterCopy(ctx, entry, payload)
	}
	if errors.Is(err, ErrPayload) || apierrors.IsInvalid(err) {
		s.refuse(entry, err)
		return nil
	}
	return err
}

// writeClusterCopy makes one Cluster object here say what the payload says, under the name that it has here.
// An origin that changed its name gets a new copy, with what is local in the old one, before that goes.
func (s *session) writeClusterCopy(ctx context.Context, entry replica.Entry, payload *clusterPayload) error {
	id := entry.Origin
	clusters := s.client.Clusters()
	name, copies := s.localName(id, payload.Name), s.registry.byID(id)
	at := slices.IndexFunc(copies, func(c *v1alpha1.Cluster) bool { return c.Name == name })
	if at < 0 {
		fresh := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
		for _, old := range copies {
			fresh.Labels, fresh.Annotations = mergeMeta(old.Labels, fresh.Labels), mergeMeta(old.Annotations, fresh.Annotations)
			fresh.Spec.AuthInfo = cmp.Or(fresh.Spec.AuthInfo, old.Spec.AuthInfo)
		}
		s.fillCopy(fresh, id, payload)
		fresh.Annotations[annotationEntry] = numberOf(entry).String()
		_, err := clusters.Create(ctx, fresh)
		return err // its arrival in the watch is the next look
	}
	for i, have := range copies {
		if i != at && syncrules.Owner(have) == id { // one that a person made is shown as a conflict, and theirs to delete
			if err := clusters.Delete(ctx, have.Name, exactly(have)); err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("remove cluster %s, now named %s: %w", have.Name, name, err)
			}
		}
	}
	have := copies[at]
	want := have.DeepCopy()
	if s.fillCopy(want, id, payload); numberOf(entry).before(recordedOn(have)) || sameMeta(have, want) && equality.Semantic.DeepEqual(have.Spec, want.Spec) {
		return nil
	}
	want.Annotations[annotationEntry] = numberOf(entry).String()
	if have.Spec.Mesh == nil || !slices.Equal(have.Spec.Mesh.Endpoints, payload.Spec.Mesh.Endpoints) {
		defer s.mesh.Kick(id) // it is to be met elsewhere
	}
	if _, err := clusters.Change(ctx, have, want); err != nil {
		return fmt.Errorf("update cluster %s: %w", have.Name, err)
	}
	return nil
}

// localName is the name of a peer's copy here: its own, unless another cluster holds that name already.
func (s *session) localName(id, name string) string {
	holder, err := s.registry.clusters.Get(name)
	if err == nil && string(holder.Spec.ClusterID) != id {
		return clashName(name, id)
	}
	if clash := clashName(name, id); err != nil {
		// Once a copy has the longer name it keeps it while it exists: names do not jump when a holder goes.
		if c, err := s.registry.clusters.Get(clash); err == nil && string(c.Spec.ClusterID) == id {
			return clash
		}
	}
	return name
}

// fillCopy gives a copy what its origin says, and where our own credential for that cluster is kept.
func (s *session) fillCopy(c *v1alpha1.Cluster, id string, p *clusterPayload) {
	auth := c.Spec.AuthInfo
	if s.peers.look(id).issued {
		auth.SecretRef = v1alpha1.NamespacedName{Name: peerSecret + id, Namespace: s.options.privateNamespace()}
	}
	mark(c, p.objectMeta, id)
	c.Spec = *p.Spec.DeepCopy()
	c.Spec.AuthInfo = auth
}

// importRule keeps the copy of a rule, or proves that there is none to keep.
func (s *session) importRule(ctx context.Context, key replica.Key) error {
	have, err := s.registry.rules.Get(key.Name)
	if apierrors.IsNotFound(err) {
		have = nil
	} else if err != nil {
		return fmt.Errorf("read rule %s: %w", key.Name, err)
	}
	rules := s.client.Rules()
	plan, entry := planCopy(s.clusterID, have, s.replica.Find(key), s.provenGone(have), s.gone)
	if s.reports.clash(key.Name, clashOf(plan, have, entry)) {
		s.ruleStatuses.add(key.Name)
	}
	switch plan {
	case copyKeep, copyConflict:
		return nil
	case copyDelete:
		err := rules.Delete(ctx, have.Name, exactly(have))
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	case copyOrphan:
		return s.orphanRule(ctx, have)
	case copyWrite:
		if have != nil && syncrules.Owner(have) == entry.Origin && numberOf(entry).before(recordedOn(have)) {
			return nil // from a member that was away for long; a newer one made the copy
		}
	}
	payload, err := decodeRule(entry.Origin, key.Name, entry.Payload)
	if err != nil {
		s.refuse(entry, err)
		return nil
	}
	want := &v1alpha1.ResourceSyncRule{ObjectMeta: metav1.ObjectMeta{Name: key.Name}}
	if have != nil {
		want = have.DeepCopy()
	}
	mark(want, payload.objectMeta, entry.Origin)
	want.Spec = payload.Spec
	changed := have == nil || !sameMeta(have, want) || !equality.Semantic.DeepEqual(have.Spec, want.Spec)
	want.Annotations[annotationEntry] = numberOf(entry).String()
	if have == nil {
		_, err = rules.Create(ctx, want)
	} else if changed {
		_, err = rules.Change(ctx, have, want)
	}
	if apierrors.IsInvalid(err) {
		s.refuse(entry, err)
		return nil
	}
	return err
}

// annotationEntry records on a copy the number of the entry that it was written from. A restart forgets what
// the replica held, and a member that was cut off for long may then offer an older set, complete in itself:
// it neither overwrites the copy nor proves that there is no object.
const annotationEntry = v1alpha1.LocalPrefix + "entry"

// entryNumber is the position of an entry in what its origin published.
type entryNumber struct{ epoch, sequence uint64 }

func (n entryNumber) String() string { return fmt.Sprintf("%d.%d", n.epoch, n.sequence) }

func (n entryNumber) before(m entryNumber) bool {
	return cmp.Or(cmp.Compare(n.epoch, m.epoch), cmp.Compare(n.sequence, m.sequence)) < 0
}

func numberOf(e replica.Entry) entryNumber { return entryNumber{e.Epoch, e.Sequence} }

// recordedOn reads a copy's annotation; a copy without one was written by nobody we know, from position 0.
func recordedOn(o metav1.Object) (n entryNumber) {
	if _, err := fmt.Sscanf(o.GetAnnotations()[annotationEntry], "%d.%d", &n.epoch, &n.sequence); err != nil {
		return entryNumber{}
	}
	return n
}

// provenGone is the replica's proof of absence, as far as it is newer than the copy have.
func (s *session) provenGone(have *v1alpha1.ResourceSyncRule) func(replica.Key, string) bool {
	return func(key replica.Key, origin string) bool {
		n, held := recordedOn(have), s.replica.Progress(origin)
		newer := held.Completed > n.epoch || held.Epoch == n.epoch && held.Sequence >= n.sequence
		return newer && s.replica.Absent(key, origin)
	}
}

// copyPlan is what to do about the local copy of a replicated object.
type copyPlan int

const (
	copyKeep     copyPlan = iota // nothing, or nothing that is proven
	copyWrite                    // create it or bring it up to date
	copyDelete                   // it is proven to be gone
	copyConflict                 // the name is taken by an object of this cluster's own
	copyOrphan                   // its owner is not in the group any more
)

// clashOf is the origin whose rule cannot be copied because this cluster has one of the same name; "" when
// there is none, or when both say the same, as where one tool applies the same files everywhere.
func clashOf(plan copyPlan, have *v1alpha1.ResourceSyncRule, entry replica.Entry) string {
	if plan != copyConflict {
		return ""
	}
	if other, err := decodeRule(entry.Origin, entry.Key.Name, entry.Payload); err == nil && equality.Semantic.DeepEqual(other.Spec, have.Spec) {
		return ""
	}
	return entry.Origin
}

// planCopy decides about one name: have is the local object or nil, entries what each origin says (smallest
// clusterID first), absent the proof that an origin has no such object. It is pure.
//
//   - A local object is never overwritten.
//   - A copy stays with its owner while that owner may still have the object.
//   - Where there is no copy, the live entry of the smallest clusterID is written.
//   - A copy whose owner is gone from the group becomes an orphan, or the copy of another cluster that publishes the
//     very same rule. An orphan is taken back by its owner, and never deleted.
func planCopy(self string, have *v1alpha1.ResourceSyncRule, entries []replica.Entry, absent func(replica.Key, string) bool, gone func(string) bool) (copyPlan, replica.Entry) {
	var first, owned *replica.Entry
	holder := ""
	if have != nil {
		holder = syncrules.Owner(have)
	}
	for i, e := range entries {
		if e.Origin == self {
			continue
		}
		if e.Origin == holder {
			owned = &entries[i]
		}
		if first == nil && e.Status == replica.Live {
			first = &entries[i]
		}
	}
	switch {
	case have == nil && first != nil:
		return copyWrite, *first
	case have == nil:
		return copyKeep, replica.Entry{}
	case holder == "" && first != nil:
		return copyConflict, *first
	case holder == "" || holder == self || has(have, v1alpha1.AnnotationSyncDisabled):
		return copyKeep, replica.Entry{}
	case gone(holder):
		if heir := sameRule(self, have, entries); heir != nil {
			return copyWrite, *heir
		}
		if !has(have, v1alpha1.AnnotationOrphaned) {
			return copyOrphan, replica.Entry{}
		}
		return copyKeep, replica.Entry{}
	case owned != nil && owned.Status == replica.Live:
		return copyWrite, *owned
	case has(have, v1alpha1.AnnotationOrphaned):
		return copyKeep, replica.Entry{}
	case owned != nil: // withdrawn: it stays, unmaintained
		return copyKeep, replica.Entry{}
	case absent(replica.Key{Kind: replica.KindRule, Name: have.GetName()}, holder):
		return copyDelete, replica.Entry{}
	}
	return copyKeep, replica.Entry{}
}
