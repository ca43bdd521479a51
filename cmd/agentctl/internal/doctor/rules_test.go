// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// Members whose agents do not know a field of a rule are named, also those that doctor does not ask, and once for each rule.
func TestMembersThatDoNotUnderstandARule(t *testing.T) {
	member := func(id string, schema int32) *v1alpha1.Cluster {
		return &v1alpha1.Cluster{
			ObjectMeta: metav1.ObjectMeta{Name: id}, Spec: v1alpha1.ClusterSpec{ClusterID: types.UID(id)},
			Status: v1alpha1.ClusterStatus{AgentVersion: "0.1.0", SchemaVersion: schema},
		}
	}
	all := []*v1alpha1.Cluster{member("new", v1alpha1.SchemaVersion), member("refuses", 7), member("obeys", 0), member("silent", 0)}
	all[3].Status.AgentVersion = ""
	named, plain := &v1alpha1.ResourceSyncRule{ObjectMeta: metav1.ObjectMeta{Name: "named"}}, &v1alpha1.ResourceSyncRule{ObjectMeta: metav1.ObjectMeta{Name: "plain"}}
	named.Spec.Targets = &v1alpha1.ClusterSelector{Names: []string{"new"}}
	plain.Spec.Targets = &v1alpha1.ClusterSelector{}
	x := &inspection{}
	for _, id := range []string{"new", "other"} {
		x.targets = append(x.targets, &target{client: &clusters.Client{Context: id}, id: id, clusters: all, rules: []*v1alpha1.ResourceSyncRule{named, plain}})
	}
	var told []string
	for _, f := range x.notUnderstood() {
		if !strings.Contains(f.Message, "cannot understand rule named") || !strings.Contains(f.Fix, "in cluster "+f.Cluster) {
			t.Errorf("%s: %s: %s", f.Cluster, f.Message, f.Fix)
		}
		told = append(told, f.Cluster)
	}
	if got := strings.Join(told, " "); got != "refuses obeys" {
		t.Errorf("named are: %s", got)
	}
}
