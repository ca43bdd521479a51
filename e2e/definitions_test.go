// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/e2e/harness"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// TestDeletedCRDs: somebody deletes the registry's CRDs in gamma, and every rule and Cluster object there goes with
// them. Nobody takes that for the wish that the group forgets gamma's rules.
func TestDeletedCRDs(t *testing.T) {
	for name, agentDown := range map[string]bool{"under a running agent": false, "while the agent was down": true} {
		t.Run(name, func(t *testing.T) { deleteCRDs(t, joined(t), agentDown) })
	}
}

func deleteCRDs(t *testing.T, g *group, agentDown bool) {
	g.cleanUp(t, "kept")
	manifest := rule("kept", "kept")
	apply(t, g.gamma, manifest)
	putSecret(t, g.gamma, "kept", "one")
	kept := func(value string) func(context.Context) error {
		return func(ctx context.Context) error {
			if err := hasRule(g.alpha, "kept")(ctx); err != nil {
				return err
			}
			return hasCopy(g.alpha, g.gamma, "kept", value)(ctx)
		}
	}
	eventually(t, "the rule and a copy in alpha", afterFault, kept("one"))
	if agentDown {
		if err := g.gamma.KillAgent(); err != nil {
			t.Fatal(err)
		}
	}
	bin, err := harness.FindBinaries()
	if err != nil {
		t.Fatal(err)
	}
	crds := filepath.Join(bin.Chart, "crds")
	kubectl(t, g.gamma, "delete", "-f", crds)
	if !agentDown {
		stays(t, "alpha keeps what gamma cannot tell of", 2*quiet, kept("one"))
	}
	kubectl(t, g.gamma, "apply", "--server-side", "-f", crds)
	if agentDown {
		eventually(t, "gamma serves the kinds again", afterFault, func(ctx context.Context) error {
			_, err := g.gamma.Dynamic.Resource(harness.Features()).List(ctx, metav1.ListOptions{})
			return err
		})
		if err := g.gamma.StartAgent(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	g.gammaIsFrozen(t)
	stays(t, "alpha keeps what gamma lost", 2*quiet, kept("one"))

	apply(t, g.gamma, manifest)
	eventually(t, "gamma is confirmed", afterFault, func(ctx context.Context) error {
		_, err := g.gamma.Kubectl(ctx, "annotate", "--overwrite", "cluster", g.gamma.Name, v1alpha1.AnnotationConfirmRestore+"="+time.Now().Format(time.RFC3339Nano))
		return err
	})
	g.eventuallyWhole(t, afterFault)
	putSecret(t, g.gamma, "kept", "two")
	eventually(t, "gamma is a source again", afterFault, kept("two"))
	// What goes by itself goes everywhere, as before.
	if err := remove(lasting(t), g.gamma, harness.Rules(), "", "kept"); err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	eventually(t, "a rule that is deleted is gone", afterFault, noRule(g.alpha, "kept"))
}
