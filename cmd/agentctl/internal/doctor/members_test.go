// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// seenBy is what a cluster holds that knows some others, of which it does not reach one API server.
func seenBy(name, unreached string, others ...string) Written {
	w := Written{Client: &clusters.Client{Context: "ctx-" + name}}
	w.Clusters = append(w.Clusters, member(name, v1alpha1.ClusterTypeLocal, says(v1alpha1.ConditionMember, metav1.ConditionTrue, "Local", "")))
	for _, other := range others {
		c := member(other, v1alpha1.ClusterTypePeer, says(v1alpha1.ConditionMember, metav1.ConditionTrue, "Alive", ""))
		if other == unreached {
			c.Status.Conditions[1] = says(v1alpha1.ConditionReady, metav1.ConditionFalse, "APIUnreachable", "not reached")
		}
		w.Clusters = append(w.Clusters, c)
	}
	return w
}

// What several agents say alike of one API server is one finding, with their number. The command asks that API server first; the address
// that they use is what to change only if it answers.
func TestUnreachedAPIServer(t *testing.T) {
	t.Parallel()
	x, y := seenBy("x", "z", "y", "z"), seenBy("y", "z", "x", "z")
	z := seenBy("z", "", "x", "y")
	away := z
	away.Problem = "connection refused"
	const both, one = "the agents in x, y (2 of 2) say of z: ", "the agent in x says of z: "
	address := "helm upgrade cluster-registry-controller charts/agent --namespace ns --reuse-values --set apiServerEndpointAddress=HOST:PORT  # in cluster z, an address that the others reach"
	for name, test := range map[string]struct {
		written   []Written
		says, fix string
	}{
		"alone":                  {[]Written{x}, one, "agentctl doctor --context ctx-x --peer-context z  # the context of that cluster"},
		"several":                {[]Written{x, y}, both, "agentctl doctor --context ctx-x --peer-context ctx-y --peer-context z  # the context of that cluster"},
		"it does not answer":     {[]Written{x, y, away}, both, "kubectl --context ctx-z get --raw '/readyz?verbose'"},
		"it answers":             {[]Written{x, y, z}, both, address},
		"it answers, not to all": {[]Written{x, seenBy("y", "", "x", "z"), z}, one, address},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := []Finding{{Check: "members", Severity: Error, Cluster: "z", Message: test.says + "Ready=False (APIUnreachable): not reached", Fix: test.fix}}
			if got := InWritten(t.Context(), "ns", test.written); !slices.Equal(got, want) {
				t.Errorf("found %+v\nwant %+v", got, want)
			}
		})
	}
}

// What agents say differently, or what needs another command for each, stays apart.
func TestDifferentComplaints(t *testing.T) {
	t.Parallel()
	x, y := seenBy("x", "z", "y", "z"), seenBy("y", "z", "x", "z")
	missing := says(v1alpha1.ConditionReady, metav1.ConditionFalse, "MissingCredential", "none arrived")
	x.Clusters[2].Status.Conditions[1], y.Clusters[2].Status.Conditions[1] = missing, missing
	x.Clusters = append(x.Clusters, member("v", v1alpha1.ClusterTypePeer, says(v1alpha1.ConditionMember, metav1.ConditionUnknown, "Suspect", "asking")))
	y.Clusters = append(y.Clusters, member("v", v1alpha1.ClusterTypePeer, says(v1alpha1.ConditionMember, metav1.ConditionFalse, "Failed", "gone")))
	var got []string
	for _, f := range InWritten(t.Context(), "ns", []Written{x, y}) {
		got = append(got, string(f.Severity)+" "+f.Message)
	}
	want := []string{
		"error the agent in y says of v: Member=False (Failed): gone",
		"error the agent in x says of z: Ready=False (MissingCredential): none arrived",
		"error the agent in y says of z: Ready=False (MissingCredential): none arrived",
		"unknown the agent in x says of v: Member=Unknown (Suspect): asking",
	}
	if !slices.Equal(got, want) {
		t.Errorf("found %q\nwant %q", got, want)
	}
}
