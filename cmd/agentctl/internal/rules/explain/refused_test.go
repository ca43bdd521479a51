// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"testing"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// What the annotations here refuse of a cluster is told: its rules, or also its objects.
func TestRefused(t *testing.T) {
	for value, want := range map[string][2]bool{"all": {}, "objects": {true, false}, "none": {true, true}} {
		paris := &reached{name: "paris", id: "p", cluster: &v1alpha1.Cluster{}}
		paris.cluster.Annotations = map[string]string{v1alpha1.AnnotationAccept: value}
		own := &v1alpha1.ResourceSyncRule{}
		theirs := own.DeepCopy()
		theirs.Labels = map[string]string{v1alpha1.LabelOwnerClusterID: "p"}
		theirs.Annotations = map[string]string{v1alpha1.AnnotationOwnerClusterID: "p"}
		oslo := &reached{name: "oslo", id: "o", cluster: &v1alpha1.Cluster{}}
		q := &inquiry{clusters: []*reached{{name: "here", local: true, cluster: &v1alpha1.Cluster{}}, paris, oslo}}
		if got := q.refusesRule(&ruleInForce{api: theirs}) != nil; got != want[0] {
			t.Errorf("%s: its rule is refused: %t", value, got)
		}
		if got := refusesObjects(paris) != nil; got != want[1] {
			t.Errorf("%s: its objects are refused: %t", value, got)
		}
	}
}
