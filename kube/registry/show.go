// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"bytes"
	"maps"

	view "github.com/roster-mesh/roster/kube/api/registry/v1alpha1"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// FromCluster returns the view of a stored Cluster. It shares maps, slices and pointers with c: a caller that changes
// one of the two copies it first.
func FromCluster(c *v1alpha1.Cluster) *view.Cluster {
	out := &view.Cluster{ObjectMeta: c.ObjectMeta}
	out.ManagedFields = nil
	if text, ok := c.Annotations[v1alpha1.AnnotationRegistryManagedFields]; ok {
		out.ManagedFields = decodeManagedFields(text)
		out.Annotations = withoutManagedFields(c.Annotations)
	}
	out.Spec.KubernetesAPIEndpoints = endpointsView(c.Spec.KubernetesAPIEndpoints)
	out.Spec.AuthInfo.User = (*view.ObjectReference)(c.Spec.AuthInfo.User)
	out.Spec.AuthInfo.Controller = controllerView(&c.Spec.AuthInfo)
	for i := range c.Status.Conditions {
		have := &c.Status.Conditions[i]
		out.Status.Conditions = append(out.Status.Conditions, view.ClusterCondition{
			Type: view.ClusterConditionType(otherType(have.Type)), Status: have.Status,
			LastTransitionTime: have.LastTransitionTime, Reason: have.Reason, Message: have.Message,
		})
	}
	return out
}

// endpointsView shows every entry but one that says nothing apart from its CA: a view without addresses that has a
// caBundle is stored so.
func endpointsView(have []v1alpha1.KubernetesAPIEndpoint) view.KubernetesAPIEndpoints {
	var out view.KubernetesAPIEndpoints
	if len(have) == 0 {
		return out
	}
	out.CABundle = have[0].CABundle
	for i := range have {
		if !bytes.Equal(have[i].CABundle, out.CABundle) {
			out.CABundle = nil
			break
		}
	}
	if len(have) == 1 && have[0].ClientNetwork == "" && have[0].ClientCIDR == "" && have[0].ServerAddress == "" {
		return out
	}
	out.ServerEndpoints = make([]view.ServerAddressByClientCIDR, 0, len(have))
	for i := range have {
		out.ServerEndpoints = append(out.ServerEndpoints, endpointView(&have[i]))
	}
	return out
}

func endpointView(e *v1alpha1.KubernetesAPIEndpoint) view.ServerAddressByClientCIDR {
	return view.ServerAddressByClientCIDR{ClientCIDR: e.ClientCIDR, ServerAddress: e.ServerAddress}
}

// kindSecret is the kind of the object that the stored form names in secretRef.
const kindSecret = "Secret"

// controllerView prefers what somebody named as the controller: secretRef may be the agent's own choice.
func controllerView(a *v1alpha1.AuthInfo) *view.ObjectReference {
	switch {
	case a.Controller != nil:
		return (*view.ObjectReference)(a.Controller)
	case a.SecretRef.Name != "":
		return &view.ObjectReference{Kind: kindSecret, Name: a.SecretRef.Name, Namespace: a.SecretRef.Namespace}
	}
	return nil
}

// otherType is the type of a condition in the other form. It is its own inverse, so that no two types become one.
func otherType(t string) string {
	switch t {
	case v1alpha1.ConditionReady:
		return string(view.ClusterOK)
	case string(view.ClusterOK):
		return v1alpha1.ConditionReady
	}
	return t
}

// withoutManagedFields is a copy without the annotation that is not shown; nil if it is empty.
func withoutManagedFields(annotations map[string]string) map[string]string {
	out := maps.Clone(annotations)
	delete(out, v1alpha1.AnnotationRegistryManagedFields)
	if len(out) == 0 {
		return nil
	}
	return out
}
