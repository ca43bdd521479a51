// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package visible

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// Of is what templates see of a Cluster object: not where its credential is, nor what comes and goes with connections, as
// copies would change with them. What it shares with the object is not to be changed.
func Of(c *v1alpha1.Cluster) *v1alpha1.Cluster {
	if c == nil {
		return nil
	}
	out := &v1alpha1.Cluster{
		TypeMeta:   c.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{Name: c.Name, Labels: c.Labels, Annotations: c.Annotations},
		Spec:       c.Spec, Status: c.Status,
	}
	out.Spec.AuthInfo = v1alpha1.AuthInfo{}
	out.Status.State, out.Status.Message, out.Status.Leader, out.Status.Conditions = "", "", false, nil
	return out
}
