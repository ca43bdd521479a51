// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/e2e/harness"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// TestRightsToSecrets: whoever pastes what the conditions of a rule for Secrets say, here and at its sources, and what
// agentctl doctor says, gets the copies, and lets no other cluster read the private key.
func TestRightsToSecrets(t *testing.T) {
	g := joined(t)
	const namespace, rule = "granted-secrets", "granted-secrets"
	for _, c := range g.Clusters[:3] {
		_, err := c.Kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { kubectl(t, c, "delete", "namespace", namespace, "--wait=false") })
	}
	apply(t, g.alpha, fmt.Sprintf("apiVersion: %s\nkind: ResourceSyncRule\nmetadata: {name: %s}\nspec:\n  groupVersionKind: {version: v1, kind: Secret}\n  rules: [{match: [{namespaces: [%s]}]}]\n",
		v1alpha1.SchemeGroupVersion, rule, namespace))
	t.Cleanup(func() {
		if err := remove(lasting(t), g.alpha, harness.Rules(), "", rule); err != nil {
			t.Error(err)
		}
		eventually(t, "the rule is gone", afterFault, noRule(g.beta, rule))
	})
	kubectl(t, g.gamma, "create", "secret", "generic", "web", "--namespace="+namespace, "--from-literal=key=value")

	pasted := map[string]bool{}
	eventually(t, "with what the conditions in beta say to paste, the rule is Ready", afterFault+within, func(ctx context.Context) error {
		where, manifest, err := suggestedSecrets(ctx, g, g.beta, rule)
		if err != nil || where == nil || pasted[where.Name+manifest] {
			return errors.Join(err, ruleIs(g.beta, rule, "True", "Synced")(ctx))
		}
		if strings.Contains(manifest, "kind: ClusterRole") || !strings.Contains(manifest, fmt.Sprintf("namespace: %q", namespace)) {
			t.Fatalf("in %s: %s", where.Name, manifest)
		}
		out, _ := g.beta.Agentctl(ctx, "doctor") // it finds something wrong
		if !strings.Contains(out, manifest) {
			return fmt.Errorf("agentctl doctor does not show %s: %s", manifest, out)
		}
		t.Logf("in %s: %s", where.Name, manifest)
		apply(t, where, manifest)
		pasted[where.Name+manifest] = true
		return errors.New("a right has just been granted")
	})
	eventually(t, "the Secret is copied", afterFault, present(g.beta, harness.Secrets(), namespace, "web"))
	if len(pasted) != 3 { // here, and at two sources
		t.Errorf("%d commands were pasted: %v", len(pasted), pasted)
	}
	for _, c := range []*harness.Cluster{g.alpha, g.gamma} {
		may(t, c, []string{"--as=x", "--as-group=" + v1alpha1.ReadersGroup(harness.Namespace)}, map[string]bool{
			"list secrets -n " + namespace:                                    true,
			"update secrets -n " + namespace:                                  false,
			"get secrets -n " + v1alpha1.PrivateNamespace(harness.Namespace):  false,
			"list secrets -n " + v1alpha1.PrivateNamespace(harness.Namespace): false,
		})
	}
}

// suggestedSecrets is what the condition of a rule says to paste, and where; nil while it says nothing.
func suggestedSecrets(ctx context.Context, g *group, at *harness.Cluster, rule string) (*harness.Cluster, string, error) {
	u, err := get(ctx, at, harness.Rules(), "", rule)
	if err != nil {
		return nil, "", err
	}
	message, _ := harness.Condition(u, "Ready")["message"].(string)
	found := regexp.MustCompile(`^(?:the agent may not .*|cluster (\S+) does not .*); grant it (?:here|there) with: kubectl apply -f - <<< '([^']*)'$`).FindStringSubmatch(message)
	switch {
	case found == nil:
		return nil, "", nil
	case found[1] != "":
		at = g.Find(found[1])
	}
	return at, found[2], nil
}
