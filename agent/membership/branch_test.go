// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"slices"
	"testing"
	"time"

	"github.com/roster-mesh/roster/agent/agenttest"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/mesh"
	"github.com/roster-mesh/roster/mesh/meshtest"
	"github.com/roster-mesh/roster/replica"
)

// TestBranchOfWhoIsGoneIsRemoved: a person asks for the removal of b with those that it admitted, and another member has removed b
// alone a moment before. Those are removed nevertheless; and where they are to be kept, or the request is about another key, they are not.
func TestBranchOfWhoIsGoneIsRemoved(t *testing.T) {
	for what, c := range map[string]struct {
		admitted string
		key      string
		removed  bool
	}{
		"with those":    {v1alpha1.RemoveWithAdmitted, agenttest.IDB, true},
		"without those": {v1alpha1.RemoveKeepAdmitted, agenttest.IDB, false},
		"another key":   {v1alpha1.RemoveWithAdmitted, "another", false},
	} {
		m := newFixture(t)
		m.options.Branch = func(string) []string { return []string{agenttest.IDC} }
		m.open(t)
		var err error
		m.mesh, err = mesh.New(mesh.Options{
			Identity: mesh.Identity{ClusterID: agenttest.IDA, PrivateKey: agenttest.Key(agenttest.IDA)}, Trust: m.trust, State: m.replica,
			Network: meshtest.NewNetwork(time.Millisecond).Host("a"), Listen: ":7946", Origin: replica.Origin,
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{agenttest.IDB, agenttest.IDC} {
			if err := m.trust.Pin(id, agenttest.PublicKey(id)); err != nil {
				t.Fatal(err)
			}
		}
		object := agenttest.Cluster("b", agenttest.IDB)
		object.Annotations = v1alpha1.RemovalRequest(v1alpha1.RequestKey(agenttest.PublicKey(c.key)), false)
		object.Annotations[v1alpha1.AnnotationRemoveAdmitted] = c.admitted
		if err := m.o.Registry.Put(object); err != nil {
			t.Fatal(err)
		}
		other := signedBy(t, "other", agenttest.IDB, agenttest.Key("other"))
		if _, _, err := m.replica.Merge(other.Message(), agenttest.IDC); err != nil {
			t.Fatal(err)
		}
		if err := m.removeOnRequest(t.Context(), "b"); err != nil {
			t.Fatal(err)
		}
		if got := !slices.Contains(m.Members(), agenttest.IDC); got != c.removed {
			t.Errorf("%s: they are removed: %t", what, got)
		}
	}
}
