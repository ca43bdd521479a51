// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// What the agents act on is for those who may write the stored Cluster.
func TestProtected(t *testing.T) {
	t.Parallel()
	plain := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c1"}}
	held := plain.DeepCopy()
	held.Spec.AuthInfo.SecretRef.Name = "credential"
	for name, tt := range map[string]struct {
		before *v1alpha1.Cluster
		edit   func(*v1alpha1.Cluster)
		want   []string
	}{
		"a label": {plain, func(c *v1alpha1.Cluster) { c.Labels = map[string]string{"team": "a"} }, nil},
		"the managed fields": {plain, func(c *v1alpha1.Cluster) {
			c.Annotations = map[string]string{v1alpha1.AnnotationRegistryManagedFields: "[]"}
		}, nil},
		"another domain":              {plain, func(c *v1alpha1.Cluster) { c.Annotations = map[string]string{"notk8s.cisco.com/x": "y"} }, nil},
		"an address":                  {plain, setAddress, nil},
		"removal":                     {plain, func(c *v1alpha1.Cluster) { c.Annotations = map[string]string{v1alpha1.AnnotationRemove: "key"} }, []string{"metadata.annotations under k8s.cisco.com"}},
		"a label of agents":           {plain, func(c *v1alpha1.Cluster) { c.Labels = map[string]string{v1alpha1.LabelOwnerClusterID: "x"} }, []string{"metadata.labels under k8s.cisco.com"}},
		"a finalizer of agents":       {plain, func(c *v1alpha1.Cluster) { c.Finalizers = []string{v1alpha1.Prefix + "x"} }, []string{"metadata.finalizers under k8s.cisco.com"}},
		"an owner":                    {plain, setOwner, []string{"metadata.ownerReferences"}},
		"an owner from the beginning": {nil, setOwner, []string{"metadata.ownerReferences"}},
		"a credential":                {plain, func(c *v1alpha1.Cluster) { c.Spec.AuthInfo = held.Spec.AuthInfo }, []string{"spec.authInfo"}},
		"an address for a credential": {held, setAddress, []string{"spec.kubernetesApiEndpoints of a Cluster with a credential"}},
		"an address that gets a credential": {nil, func(c *v1alpha1.Cluster) {
			setAddress(c)
			c.Spec.AuthInfo = held.Spec.AuthInfo
		}, []string{"spec.authInfo"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			after := plain.DeepCopy()
			if tt.before != nil {
				after = tt.before.DeepCopy()
			}
			tt.edit(after)
			c := change{verb: "update", before: tt.before, after: after}
			if got := c.protected(); !slices.Equal(got, tt.want) {
				t.Errorf("%v", got)
			}
		})
	}
}

func setAddress(c *v1alpha1.Cluster) {
	c.Spec.KubernetesAPIEndpoints = []v1alpha1.KubernetesAPIEndpoint{{ServerAddress: "https://attacker.example"}}
}

func setOwner(c *v1alpha1.Cluster) {
	c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Namespace", Name: "missing", UID: "1"}}
}

// The copy of another cluster's Cluster takes conditions and annotations, and nothing that changes what it is or how long it
// stays.
func TestCopied(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		edit  func(*v1alpha1.Cluster)
		taken bool
	}{
		"an annotation": {func(c *v1alpha1.Cluster) { c.Annotations["note"] = "mine" }, true},
		"a label":       {func(c *v1alpha1.Cluster) { c.Labels = map[string]string{"team": "a"} }, false},
		"an address":    {setAddress, false},
		"an owner":      {setOwner, false},
		"a finalizer":   {func(c *v1alpha1.Cluster) { c.Finalizers = []string{"example.com/mine"} }, false},
	} {
		before := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c1", Annotations: map[string]string{v1alpha1.AnnotationOwnerClusterID: "id"}}}
		after := before.DeepCopy()
		tt.edit(after)
		c := change{verb: "update", before: before, after: after}
		if err := c.copied(); tt.taken && err != nil || !tt.taken && !apierrors.IsConflict(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
