// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/roster-mesh/roster/e2e/harness"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// TestRestoredAPIServer: gamma's API server is restored from a backup and so has neither a rule nor a Secret that
// were made since. Nobody takes that for a deletion until gamma's owner confirms it.
func TestRestoredAPIServer(t *testing.T) {
	for name, c := range map[string]struct {
		agentDown bool
		ahead     int
	}{
		"under a running agent":                  {},
		"under a running agent, then written to": {ahead: 3000},
		"while the agent was down":               {agentDown: true},
	} {
		t.Run(name, func(t *testing.T) { restoreGamma(t, joined(t), c.agentDown, c.ahead) })
	}
}

func restoreGamma(t *testing.T, g *group, agentDown bool, ahead int) {
	for _, name := range []string{"old", "born-later", "later"} {
		g.cleanUp(t, name)
	}
	g.share(t, "old", "one")
	if err := g.gamma.Backup(t.Context()); err != nil {
		t.Fatal(err)
	}
	apply(t, g.gamma, rule("born-later", "old"))
	g.share(t, "later", "one")
	eventually(t, "the later rule is in alpha", afterFault, hasRule(g.alpha, "born-later"))
	if agentDown {
		if err := g.gamma.KillAgent(); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.gamma.Restore(t.Context(), ahead); err != nil {
		t.Fatal(err)
	}
	if agentDown {
		if err := g.gamma.StartAgent(t.Context()); err != nil {
			t.Fatal(err)
		}
	}

	g.gammaIsFrozen(t)
	stays(t, "what gamma does not remember stays elsewhere", 2*quiet, func(ctx context.Context) error {
		if err := hasRule(g.alpha, "born-later")(ctx); err != nil {
			return err
		}
		return hasCopy(g.alpha, g.gamma, "later", "one")(ctx)
	})
	eventually(t, "the rule in alpha says what its copies wait for", afterFault, func(ctx context.Context) error {
		u, err := get(ctx, g.alpha, harness.Rules(), "", "later")
		if err != nil {
			return err
		}
		if c := harness.Condition(u, "Ready"); c["reason"] != "SourceRestored" {
			return fmt.Errorf("Ready is %v, %v: %v", c["status"], c["reason"], c["message"])
		}
		return nil
	})

	kubectl(t, g.gamma, "annotate", "--overwrite", "cluster", g.gamma.Name, v1alpha1.AnnotationConfirmRestore+"="+time.Now().Format(time.RFC3339Nano))
	eventually(t, "confirmed, the later rule is gone", afterFault, noRule(g.alpha, "born-later"))
	eventually(t, "confirmed, the later Secret is gone", afterFault, noSecret(g.alpha, "later"))
	if err := hasCopy(g.alpha, g.gamma, "old", "one")(t.Context()); err != nil {
		t.Error(err)
	}
	g.eventuallyWhole(t, afterFault)
	putSecret(t, g.gamma, "old", "two")
	eventually(t, "gamma is a source again", afterFault, hasCopy(g.alpha, g.gamma, "old", "two"))
}

// What was deleted in gamma, as alpha saw, is back after a restore: it is not copied again before gamma's owner
// says that it is meant to be there.
func TestUndoneDeletion(t *testing.T) {
	g := joined(t)
	g.cleanUp(t, "deleted")
	g.share(t, "deleted", "one")
	if err := g.gamma.Backup(t.Context()); err != nil {
		t.Fatal(err)
	}
	g.eventuallyWhole(t, afterFault)
	deleteSecret(t, g.gamma, "deleted")
	for _, c := range []*harness.Cluster{g.alpha, g.beta} {
		eventually(t, "the copy in "+c.Name+" is gone", afterFault, noSecret(c, "deleted"))
	}
	if err := g.gamma.Restore(t.Context(), 3000); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the rule in alpha says that gamma went back", afterFault, func(ctx context.Context) error {
		u, err := get(ctx, g.alpha, harness.Rules(), "", "deleted")
		if err != nil {
			return err
		}
		if c := harness.Condition(u, "Ready"); c["reason"] != "SourceRestored" {
			return fmt.Errorf("Ready is %v, %v: %v", c["status"], c["reason"], c["message"])
		}
		return nil
	})
	stays(t, "what is back is not copied", 2*quiet, noSecret(g.alpha, "deleted"))
	kubectl(t, g.gamma, "annotate", "--overwrite", "cluster", g.gamma.Name, v1alpha1.AnnotationConfirmRestore+"="+time.Now().Format(time.RFC3339Nano))
	eventually(t, "confirmed, it is", afterFault, hasCopy(g.alpha, g.gamma, "deleted", "one"))
	g.eventuallyWhole(t, afterFault)
}

// gammaIsFrozen waits until gamma's own Cluster object says what is to be confirmed.
func (g *group) gammaIsFrozen(t *testing.T) {
	t.Helper()
	eventually(t, "gamma says what to do", afterFault, func(ctx context.Context) error {
		u, err := get(ctx, g.gamma, harness.Clusters(), "", g.gamma.Name)
		if err != nil {
			return err
		}
		c := harness.Condition(u, v1alpha1.ConditionReady)
		if text := fmt.Sprint(c["message"]); c["status"] != "False" || !strings.Contains(text, v1alpha1.AnnotationConfirmRestore) {
			return fmt.Errorf("Ready is %v: %s", c["status"], text)
		}
		return nil
	})
}
