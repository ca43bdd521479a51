// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"bytes"
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	view "github.com/roster-mesh/roster/kube/api/registry/v1alpha1"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// ReasonNotStated is the reason of a condition that was written without one: a stored condition must have one.
const ReasonNotStated = "NotStated"

// ToCluster returns the stored Cluster have with the metadata and the spec of its view v; have is empty for a new
// one. Its status is that of have, and so is its resourceVersion: the result must not be written over a later version.
// The error is ErrManagedFields. Neither have nor v is changed, and the result shares nothing with them.
func ToCluster(have *v1alpha1.Cluster, v *view.Cluster) (*v1alpha1.Cluster, error) {
	out, v := have.DeepCopy(), v.DeepCopy()
	out.Name, out.GenerateName = v.Name, v.GenerateName
	out.Labels, out.Annotations = v.Labels, v.Annotations
	out.Finalizers, out.OwnerReferences = v.Finalizers, v.OwnerReferences
	if err := setManagedFields(out, v.ManagedFields); err != nil {
		return nil, err
	}
	out.Spec.KubernetesAPIEndpoints = endpoints(out.Spec.KubernetesAPIEndpoints, v.Spec.KubernetesAPIEndpoints)
	out.Spec.AuthInfo.User = (*v1alpha1.ObjectReference)(v.Spec.AuthInfo.User)
	setController(&out.Spec.AuthInfo, (*v1alpha1.ObjectReference)(v.Spec.AuthInfo.Controller))
	return out, nil
}

// setController makes a show a controller. The Secret that the agent uses is changed only by who names another one, or
// removes it where it is shown: beside a controller of another kind it is not.
func setController(a *v1alpha1.AuthInfo, controller *v1alpha1.ObjectReference) {
	shown := controllerView(a)
	switch {
	case equality.Semantic.DeepEqual((*v1alpha1.ObjectReference)(shown), controller):
	case controller == nil && shown.Kind == kindSecret:
		a.SecretRef = v1alpha1.NamespacedName{}
	case controller == nil:
		a.Controller = nil
	case controller.Kind == kindSecret:
		a.Controller, a.SecretRef = nil, v1alpha1.NamespacedName{Name: controller.Name, Namespace: controller.Namespace}
	default:
		a.Controller = controller
	}
}

// endpoints changes the entries of have into those of v. An entry that v has, too, keeps its clientNetwork and its CA,
// also where its address has changed; a caBundle that v changes is set on all.
func endpoints(have []v1alpha1.KubernetesAPIEndpoint, v view.KubernetesAPIEndpoints) []v1alpha1.KubernetesAPIEndpoint {
	shown := endpointsView(have)
	sameCA := bytes.Equal(v.CABundle, shown.CABundle)
	if sameCA && slices.Equal(v.ServerEndpoints, shown.ServerEndpoints) {
		return have
	}
	if len(v.ServerEndpoints) == 0 {
		if len(v.CABundle) == 0 {
			return nil
		}
		return []v1alpha1.KubernetesAPIEndpoint{{CABundle: v.CABundle}}
	}
	before := matches(have, v.ServerEndpoints)
	out := make([]v1alpha1.KubernetesAPIEndpoint, 0, len(v.ServerEndpoints))
	for i, want := range v.ServerEndpoints {
		e := v1alpha1.KubernetesAPIEndpoint{ClientCIDR: want.ClientCIDR, ServerAddress: want.ServerAddress, CABundle: v.CABundle}
		if before[i] != nil {
			e.ClientNetwork = before[i].ClientNetwork
			if sameCA {
				e.CABundle = before[i].CABundle
			}
		}
		out = append(out, e)
	}
	return out
}

// matches returns for each entry of want the one of have that it was, nil for a new one: the first with its CIDR and its
// address, else with its CIDR, else, of those for all clients, the one in its place. Each is used once.
func matches(have []v1alpha1.KubernetesAPIEndpoint, want []view.ServerAddressByClientCIDR) []*v1alpha1.KubernetesAPIEndpoint {
	out, used := make([]*v1alpha1.KubernetesAPIEndpoint, len(want)), make([]bool, len(have))
	for _, same := range []func(i, n int) bool{
		func(i, n int) bool { return endpointView(&have[n]) == want[i] },
		func(i, n int) bool {
			return have[n].ClientCIDR == want[i].ClientCIDR && (i == n || want[i].ClientCIDR != "")
		},
	} {
		for i := range want {
			for n := range have {
				if out[i] == nil && !used[n] && same(i, n) {
					out[i], used[n] = &have[n], true
				}
			}
		}
	}
	return out
}

// ToClusterStatus returns the stored Cluster have with the status of its view v. What the view's status does not show
// stays. now is when a condition has changed that does not say it. Neither have nor v is changed.
func ToClusterStatus(have *v1alpha1.Cluster, v *view.Cluster, now metav1.Time) *v1alpha1.Cluster {
	out := have.DeepCopy()
	out.Status.Conditions = nil
	for i := range v.Status.Conditions {
		out.Status.Conditions = append(out.Status.Conditions, condition(have.Status.Conditions, &v.Status.Conditions[i], now))
	}
	return out
}

func condition(have []metav1.Condition, v *view.ClusterCondition, now metav1.Time) metav1.Condition {
	out := metav1.Condition{
		Type: otherType(string(v.Type)), Status: v.Status, Reason: cmp.Or(v.Reason, ReasonNotStated), Message: v.Message,
		LastTransitionTime: v.LastTransitionTime,
	}
	old := meta.FindStatusCondition(have, out.Type)
	if old != nil {
		out.ObservedGeneration = old.ObservedGeneration
	}
	if !out.LastTransitionTime.IsZero() {
		return out
	}
	if out.LastTransitionTime = now; old != nil && old.Status == out.Status {
		out.LastTransitionTime = old.LastTransitionTime
	}
	return out
}
