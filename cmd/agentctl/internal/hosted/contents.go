// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package hosted

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/hosted/objects"
)

// unlabelled is the claim that the StatefulSet takes for its own by its name, where init's labels are not on it. It is never
// deleted: somebody else may have made it.
func (o *DeleteOptions) unlabelled(ctx context.Context, host *clusters.Client) ([]part, error) {
	claim, err := o.resource(host, objects.Claims()).Get(ctx, o.ClaimName(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) || err == nil && o.Mine(claim):
		return nil, nil
	case err != nil:
		return nil, host.Errorf("%s", clusters.Reason(err))
	}
	return []part{{objects.Claims(), claim}}, nil
}

// spare keeps the namespace from what goes unless all that is in it is known, and is the registry's or Kubernetes' own.
func (o *DeleteOptions) spare(ctx context.Context, host *clusters.Client, goes []part) (rest, stays []part, err error) {
	last := len(goes) - 1
	if goes[last].gvr != objects.Namespaces() {
		return goes, nil, nil
	}
	var own []types.UID
	for _, p := range goes {
		own = append(own, p.object.GetUID())
	}
	reader, err := metadata.NewForConfigAndClient(host.Config, host.HTTP)
	if err != nil {
		return nil, nil, err
	}
	kinds, err := host.Namespaced(ctx)
	complete := err == nil
	for _, gvr := range kinds {
		if passing(gvr.GroupResource()) {
			continue
		}
		list, err := reader.Resource(gvr).Namespace(o.Namespace).List(ctx, metav1.ListOptions{})
		switch {
		case apierrors.IsNotFound(err): // the kind has just gone
		case err != nil || slices.ContainsFunc(list.Items, func(m metav1.PartialObjectMetadata) bool { return o.foreign(gvr.GroupResource(), &m, own) }):
			complete = false
		}
	}
	if !complete {
		return goes[:last], goes[last:], nil
	}
	return goes, nil, nil
}

// passing tells whether Kubernetes makes the objects of a kind by itself, and again when they are missing.
func passing(kind schema.GroupResource) bool {
	return slices.Contains([]string{"events", "events.events.k8s.io", "endpoints", "endpointslices.discovery.k8s.io", "leases.coordination.k8s.io"}, kind.String())
}

// foreign tells whether neither init nor Kubernetes itself has made an object.
func (o *DeleteOptions) foreign(kind schema.GroupResource, m *metav1.PartialObjectMetadata, own []types.UID) bool {
	switch {
	case o.Mine(m), slices.ContainsFunc(m.OwnerReferences, func(r metav1.OwnerReference) bool { return slices.Contains(own, r.UID) }):
		return false
	case kind == schema.GroupResource{Resource: "serviceaccounts"} && m.Name == "default":
		return false
	case kind == schema.GroupResource{Resource: "configmaps"} && m.Name == "kube-root-ca.crt":
		return false
	}
	return true
}
