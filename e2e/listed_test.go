// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/e2e/harness"
)

// TestClusterListed: a Cluster without a clusterID is listed in its API server, and the group knows nothing of it, until
// it is given one.
func TestClusterListed(t *testing.T) {
	g := joined(t)
	g.cleanUp(t, "listing")
	t.Cleanup(func() {
		kubectl(t, g.alpha, "delete", "clusters.clusterregistry.k8s.cisco.com", "listed", "--ignore-not-found")
		g.eventuallyWhole(t, afterFault)
	})
	manifest := strings.ReplaceAll(cluster("listed", "", g.beta.Name, "https://127.0.0.1:1"), "  clusterID: \n", "")
	apply(t, g.alpha, manifest)

	g.share(t, "listing", "one") // work that the agents do after they have met it
	untouched := func(ctx context.Context) error {
		u, err := get(ctx, g.alpha, harness.Clusters(), "", "listed")
		if err != nil {
			return err
		}
		if status, found, _ := unstructured.NestedMap(u.Object, "status"); found {
			return fmt.Errorf("it has a status: %v", status)
		}
		if u.GetGeneration() != 1 || len(u.GetManagedFields()) != 1 {
			return fmt.Errorf("it was written: generation %d, %v", u.GetGeneration(), u.GetManagedFields())
		}
		return errors.Join(absent(g.beta, harness.Clusters(), "", "listed")(ctx), g.whole(ctx))
	}
	if err := untouched(t.Context()); err != nil {
		t.Error(err)
	}
	for what, check := range map[string]func(context.Context) error{
		"clusters":  g.asks(0, []string{"clusters", "--context", "alpha"}, "listed", "it is only listed, and joins nothing"),
		"status":    g.asks(0, []string{"status", "--context", "alpha"}, "alpha: healthy", "clusters: 3, 3 healthy"),
		"doctor":    g.asks(0, doctor(), "nothing found"),
		"untouched": untouched,
	} {
		eventually(t, what, within, check)
	}
	if out, err := g.Agentctl(t.Context(), "members", "--context", "alpha"); err != nil || strings.Contains(out, "listed") {
		t.Errorf("members: %v\n%s", err, out)
	}

	own, err := g.alpha.Dynamic.Resource(harness.Clusters()).Get(t.Context(), g.beta.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	taken, _, _ := unstructured.NestedString(own.Object, "spec", "clusterID")
	patch := func(id string) string { return `{"spec":{"clusterID":"` + id + `"}}` }
	if out, err := g.alpha.Kubectl(t.Context(), "patch", "clusters.clusterregistry.k8s.cisco.com", "listed", "--type=merge", "-p", patch(taken)); err == nil || !strings.Contains(err.Error(), "Cluster beta has this clusterID already") {
		t.Errorf("it takes the clusterID of beta: %v %s", err, out)
	}
	kubectl(t, g.alpha, "patch", "clusters.clusterregistry.k8s.cisco.com", "listed", "--type=merge", "-p", patch(newID(7)))
	eventually(t, "once it has a clusterID of its own, the agent looks after it", within, func(ctx context.Context) error {
		u, err := get(ctx, g.alpha, harness.Clusters(), "", "listed")
		if err != nil {
			return err
		}
		if kind, _, _ := unstructured.NestedString(u.Object, "status", "type"); kind != "Peer" {
			return fmt.Errorf("status.type is %q", kind)
		}
		return nil
	})
}
