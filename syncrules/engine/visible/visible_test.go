// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package visible

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

func TestOf(t *testing.T) {
	t.Parallel()
	if Of(nil) != nil {
		t.Error("of nothing something is seen")
	}
	c := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "paris", ResourceVersion: "7", Labels: map[string]string{"tier": "edge"}}}
	c.Spec.AuthInfo.SecretRef.Name = "hidden"
	c.Status.Version, c.Status.Message = "v1.36.0", "connected"
	seen := Of(c)
	if seen.Name != "paris" || seen.Labels["tier"] != "edge" || seen.Status.Version != "v1.36.0" {
		t.Errorf("templates see %+v", seen)
	}
	if seen.ResourceVersion != "" || seen.Spec.AuthInfo.SecretRef.Name != "" || seen.Status.Message != "" {
		t.Errorf("templates see what comes and goes: %+v", seen)
	}
	if c.Spec.AuthInfo.SecretRef.Name != "hidden" || c.Status.Message != "connected" {
		t.Error("the object was changed")
	}
}
