// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/e2e/harness"
)

// TestGitOps is what docs/gitops.md promises to those who keep rules in Git: a tool that applies one in a cluster finds it
// unchanged; what the tool tracks it by does not spread; and a tool that applies the same file in another cluster, over the
// copy that is there, is left alone, while another file is undone there until the owner has it too.
func TestGitOps(t *testing.T) {
	g := joined(t)
	name := "kept-in-git"
	g.cleanUp(t, name)
	tracked := strings.Replace(rule(name, name), "metadata:\n", `metadata:
  annotations: {argocd.argoproj.io/tracking-id: "rules:x", kustomize.toolkit.fluxcd.io/checksum: "1"}
  labels: {kustomize.toolkit.fluxcd.io/name: rules}
`, 1)
	first := write(t, "first.yaml", tracked)
	second := write(t, "second.yaml", tracked+"  createNamespace: true\n")
	applied := func(c *harness.Cluster, file string) {
		t.Helper()
		kubectl(t, c, "apply", "--server-side", "--force-conflicts", "--field-manager=argocd-controller", "-f", file)
	}

	applied(g.alpha, first)
	eventually(t, "the agent of alpha knows it", within, known(g.alpha, name))
	kubectl(t, g.alpha, "diff", "--server-side", "--field-manager=argocd-controller", "-f", first) // fails if there is one
	eventually(t, "it is in beta", within, known(g.beta, name))
	copied, err := get(t.Context(), g.beta, harness.Rules(), "", name)
	if err != nil {
		t.Fatal(err)
	}
	if tracks := fmt.Sprint(copied.GetLabels(), copied.GetAnnotations()); strings.Contains(tracks, "argocd") || strings.Contains(tracks, "fluxcd") {
		t.Errorf("the tools of beta would take the copy for one of theirs, and delete it: %s", tracks)
	}

	applied(g.beta, first)
	eventually(t, "the agent of beta knows what was applied", within, known(g.beta, name))
	mine, err := get(t.Context(), g.beta, harness.Rules(), "", name)
	if err != nil {
		t.Fatal(err)
	}
	stays(t, "the same file over the copy in beta", quiet, func(ctx context.Context) error {
		now, err := get(ctx, g.beta, harness.Rules(), "", name)
		if err == nil && (now.GetGeneration() != mine.GetGeneration() || len(now.GetAnnotations()) != len(mine.GetAnnotations())) {
			err = fmt.Errorf("it was changed: %v", now.Object)
		}
		return err
	})

	creates := func(c *harness.Cluster, want bool) func(context.Context) error {
		return func(ctx context.Context) error {
			u, err := get(ctx, c, harness.Rules(), "", name)
			if err != nil {
				return err
			}
			if got, _, _ := unstructured.NestedBool(u.Object, "spec", "createNamespace"); got != want {
				err = fmt.Errorf("createNamespace is %v in %s", got, c.Name)
			}
			return err
		}
	}
	applied(g.beta, second)
	eventually(t, "another file is undone in beta, since alpha owns the rule", within, creates(g.beta, false))
	applied(g.alpha, second)
	eventually(t, "alpha's change is in beta", within, creates(g.beta, true))
}

// known: the agent has reported on the rule as it is.
func known(c *harness.Cluster, name string) func(context.Context) error {
	return func(ctx context.Context) error {
		u, err := get(ctx, c, harness.Rules(), "", name)
		if err != nil {
			return err
		}
		if observed, _, _ := unstructured.NestedInt64(u.Object, "status", "observedGeneration"); observed != u.GetGeneration() {
			return fmt.Errorf("in %s: generation %d, observed %d", c.Name, u.GetGeneration(), observed)
		}
		return harness.ConditionTrue(u, "Ready")
	}
}
