// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/mesh"
	"github.com/roster-mesh/roster/replica"
	"github.com/roster-mesh/roster/syncrules"
)

// asKey is the bytes of a Cluster object as a public key; bytes of another length equal no key.
func asKey(b []byte) ed25519.PublicKey { return ed25519.PublicKey(b) }

func clusterKey(id string) replica.Key { return replica.Key{Kind: replica.KindCluster, Name: id} }

// swapped pins the key of a Cluster object that a person put here: the swap is the only trust anchor. A
// copy that the agent wrote is pinned already; one that was edited changes no pin.
func (s *session) swapped(c *v1alpha1.Cluster) {
	id := string(c.Spec.ClusterID)
	if c.Spec.Mesh == nil || len(c.Spec.Mesh.PublicKey) != ed25519.PublicKeySize || has(c, v1alpha1.AnnotationClusterDisabled) {
		return
	}
	if _, ended := s.removals.of(s.clusterID, s.key.Public().(ed25519.PublicKey)); ended {
		return // nobody would talk to us; under a new key it is a swap
	}
	pinned, known := s.trust.Key(id)
	if known && syncrules.Owner(c) == id && pinned.Equal(asKey(c.Spec.Mesh.PublicKey)) {
		return // our own copy of it, which is no swap
	}
	if err := s.trust.Pin(id, asKey(c.Spec.Mesh.PublicKey)); err != nil {
		if !errors.Is(err, mesh.ErrPinned) && !errors.Is(err, mesh.ErrRemoved) { // the object's status says so
			s.log.Warn("a cluster is not trusted", "cluster", c.Name, "error", err)
		}
		return
	}
	if !known {
		s.mesh.Kick(id)
	}
}

// restorePin takes a pin that an earlier start recorded.
func (s *session) restorePin(p mesh.Pin) error {
	if p.Introducer != "" {
		return s.trust.Introduce(p.ClusterID, p.PublicKey, p.Introducer)
	}
	return s.trust.Pin(p.ClusterID, p.PublicKey)
}

// pinned is called by the trust table for every new pin.
func (s *session) pinned(p mesh.Pin) {
	s.log.Info("cluster is trusted", "clusterID", p.ClusterID, "introducer", p.Introducer)
	if p.Introducer == "" && s.replica != nil { // an introduction comes from the replica itself
		s.replica.Swapped(p.ClusterID)
	}
	s.chores.add(chorePins)
	s.statuses.add(p.ClusterID)
	s.offers.add(p.ClusterID) // it may have been gone
}

// endpoints are the addresses at which a member's mesh port may be found: what it says of itself, then what
// was pasted here.
func (s *session) endpoints(id string) []string {
	var out []string
	add := func(spec *v1alpha1.ClusterMesh) {
		if spec == nil {
			return
		}
		for _, e := range spec.Endpoints {
			if !slices.Contains(out, e) {
				out = append(out, e)
			}
		}
	}
	if e, ok := s.replica.Lookup(clusterKey(id), id); ok {
		if p, err := decodeCluster(id, e.Payload); err == nil {
			add(p.Spec.Mesh)
		}
	}
	for _, c := range s.registry.byID(id) {
		add(c.Spec.Mesh)
	}
	return out
}

// memberChanged is called by the mesh when a member's state changes.
func (s *session) memberChanged(m mesh.Member) {
	s.statuses.add(m.ClusterID)
	if m.State == mesh.Alive {
		s.hears.add(m.ClusterID)
		s.peers.changed(m.ClusterID)
		s.tells.add(m.ClusterID)
	}
}

// What members call of each other: a credential to read with, and to be told of a removal.
const (
	methodCredential = "Credential"
	methodTell       = "Tell"
)

func (s *session) methods() map[string]mesh.Method {
	return map[string]mesh.Method{
		methodCredential: {Serve: s.issueCredential, Burst: 5, Every: 10 * time.Second}, // each is a request to our API server
		methodTell:       {Serve: func(_ context.Context, peer string, msg []byte) ([]byte, error) { return nil, s.mesh.Merge(peer, msg) }},
	}
}

// issueCredential answers a pinned member that asks for a credential to read here with.
func (s *session) issueCredential(ctx context.Context, member string, _ []byte) ([]byte, error) {
	for _, c := range s.registry.byID(member) {
		if has(c, v1alpha1.AnnotationClusterDisabled) {
			return nil, errors.New("this cluster is disabled there")
		}
	}
	account := readerAccount + "-" + member // its own, so that it ends with the membership
	credential, err := s.issuer.Issue(ctx, account, peerLife)
	if err != nil {
		s.log.Warn("no credential is issued", "member", member, "error", err)
		return nil, errors.New("the agent could not issue a credential; its log says why")
	}
	if _, pinned := s.trust.Key(member); !pinned { // it was removed meanwhile
		return nil, errors.Join(errors.New("not a member any more"), s.issuer.Revoke(ctx, account))
	}
	return credential.Kubeconfig, nil
}

// entriesChanged is called by the replica for what a merge changed.
func (s *session) entriesChanged(changes []replica.Change) {
	for _, c := range changes {
		switch c.Key.Kind {
		case replica.KindCluster:
			s.incoming.add(c.Key)
			s.statuses.add(c.Origin)
			s.peers.changed(c.Origin)
		case replica.KindRule:
			s.incoming.add(c.Key)
		case replica.KindFeature:
			s.offers.add(c.Origin)
		default: // what is known of the origin's whole set changed: any of its copies may be proven gone
			s.statuses.add(c.Origin)
			s.offers.add(c.Origin)
			s.recheck(c.Origin)
		}
	}
}

// recheck looks again at every rule copy of an origin.
func (s *session) recheck(origin string) {
	rules, err := s.registry.rules.List(labels.SelectorFromSet(labels.Set{v1alpha1.LabelOwnerClusterID: origin}))
	if err != nil {
		return // a selector of one value is valid, and the lister has no other error
	}
	for _, r := range rules {
		s.incoming.add(replica.Key{Kind: replica.KindRule, Name: r.Name})
	}
}

// refuse reports, once for each entry, something that a member published and that cannot be used.
func (s *session) refuse(e replica.Entry, err error) {
	is, key := numberOf(e), refusal{e.Key, e.Origin}
	s.refusedMu.Lock()
	was, known := s.refused[key]
	full := !known && len(s.refused) >= maxRefused
	if !full {
		s.refused[key] = is
	}
	s.refusedMu.Unlock()
	if was == is {
		return
	}
	if s.refusals.Inc(); full {
		return // a member that floods us is counted, not listened to
	}
	s.log.Warn("an object of a member is not taken", "origin", e.Origin, "kind", kindName(e.Key.Kind), "name", e.Key.Name, "error", err)
}

// maxRefused bounds what is remembered, and so logged, of what members published in vain.
const maxRefused = 1000

// refusal is what a member published under a key.
type refusal struct {
	key    replica.Key
	origin string
}

func kindName(k replica.Kind) string {
	switch k {
	case replica.KindCluster:
		return "Cluster"
	case replica.KindRule:
		return "ResourceSyncRule"
	case replica.KindFeature:
		return "ClusterFeature"
	}
	return fmt.Sprintf("kind %d", k)
}

// exactly makes a delete hit the object that was looked at and no successor of it.
func exactly(o metav1.Object) *metav1.Preconditions {
	uid, version := o.GetUID(), o.GetResourceVersion()
	return &metav1.Preconditions{UID: &uid, ResourceVersion: &version}
}

// sameMeta compares what a copy's metadata carries over.
func sameMeta(a, b metav1.Object) bool {
	return equality.Semantic.DeepEqual(a.GetLabels(), b.GetLabels()) && equality.Semantic.DeepEqual(a.GetAnnotations(), b.GetAnnotations())
}

// Lives of what the agent issues. A credential is renewed when a fifth of its life is left.
const (
	bootstrapLife    = 24 * time.Hour
	peerLife         = 12 * time.Hour
	bootstrapAccount = "bootstrap"
	readerAccount    = "reader"
	untilWoken       = time.Hour
)
