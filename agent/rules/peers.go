// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/agent/payload"
	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/replica"
	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/engine"
)

// PeerChanged updates a peer in the engine: its connection, its Cluster object, its features, or whether it is in the
// group has changed. Of this cluster itself it says that its role may be another one.
func (r *Rules) PeerChanged(id string) { r.peerUpdates.Add(id) }

// updatePeer passes what is known of a peer to the engine.
func (r *Rules) updatePeer(_ context.Context, id string) error {
	switch {
	case id == r.options.ClusterID: // its role may have changed
		rules, err := r.options.Registry.Rules.List(labels.Everything())
		for _, rule := range rules {
			if syncrules.Owner(rule) == "" {
				r.ownStatuses.Add(rule.Name)
			}
		}
		return err
	case r.options.Directory.Forgotten(id):
		r.engine.RemovePeer(id)
		r.Hooks.PeerRemoved(id)
	default:
		r.AcceptChanged(id) // it may be an edge no more
		r.engine.SetPeer(r.enginePeer(id))
	}
	return nil
}

// enginePeer is a peer as the engine gets it. Its features count as known only after the member itself was asked: what
// others hold of it may be older than the state that the copies here were made from.
func (r *Rules) enginePeer(id string) engine.Peer {
	o := &r.options
	known := o.Peer(id)
	peer := engine.Peer{
		ClusterID: id, Name: o.Registry.Name(id), Source: known.Source, Why: known.Message,
		FeaturesKnown: known.CaughtUp && o.Directory.Complete(id),
	}
	if err := r.terms(id).RefuseObjects(peer.Name); err != nil {
		peer.Source, peer.Refused = nil, err.Error()
	}
	if clusters := o.Registry.ByID(id); len(clusters) > 0 {
		peer.Cluster = clusters[0]
	}
	for _, e := range o.Replica.EntriesOf(id, replica.KindFeature) {
		if e.Status != replica.Live {
			continue
		}
		feature, err := payload.DecodeFeature(e.Origin, e.Key.Name, e.Payload)
		if err != nil {
			r.Hooks.Refused(e, err)
			continue
		}
		peer.Features = append(peer.Features, feature)
	}
	return peer
}

// review asks an API server which rights the agent lacks there: that of a peer, or the local one for "".
func (r *Rules) review(ctx context.Context, cluster string, gvk schema.GroupVersionKind, namespaces, verbs []string) (engine.Lack, error) {
	client := r.options.Client
	if cluster != "" {
		if client = r.options.Peer(cluster).Client; client == nil {
			return engine.Lack{}, engine.ErrUnreachable
		}
	}
	resource, missing, in, err := client.MissingVerbs(ctx, gvk, namespaces, verbs)
	lack := engine.Lack{Resource: resource, Verbs: missing, Namespaces: in}
	if len(missing) > 0 && resource.Resource == "secrets" { // what grants those names who gets them
		lack.User = userOf(ctx, client)
	}
	return lack, err
}

// userOf is as whom an API server knows a client, "" where it does not say. Namespace and account of an agent may have other
// names than the chart's.
func userOf(ctx context.Context, client *kube.Client) string {
	review := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}}
	if review, err := client.Create(ctx, review); err == nil {
		name, _, _ := unstructured.NestedString(review.Object, "status", "userInfo", "username")
		return name
	}
	return ""
}

// classify translates an error of an API server into one of the engine.
func classify(err error) error {
	switch {
	case errors.Is(err, kube.ErrRestored):
		return engine.ErrRestored
	case errors.Is(err, kube.ErrKindUnknown):
		return engine.ErrKindUnknown
	case errors.Is(err, kube.ErrUnauthorized), errors.Is(err, kube.ErrForbidden):
		return engine.ErrForbidden
	case errors.Is(err, kube.ErrUnreachable):
		return engine.ErrUnreachable
	}
	return nil
}
