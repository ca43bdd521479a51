// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/e2e/documents"
	"github.com/roster-mesh/roster/e2e/harness"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// TestRestoredAPIServer: gamma's API server is restored from a backup and so has neither a rule nor a Secret that
// were made since. Nobody takes that for a deletion until gamma's owner confirms it.
func TestRestoredAPIServer(t *testing.T) {
	docs := documents.NewReader("..")
	for name, c := range map[string]struct {
		agentDown bool
		ahead     int
	}{
		"under a running agent":                  {},
		"under a running agent, then written to": {ahead: 3000},
		"while the agent was down":               {agentDown: true},
	} {
		t.Run(name, func(t *testing.T) { restoreGamma(t, joined(t), docs, c.agentDown, c.ahead) })
	}
	if err := docs.Untyped("e2e.TestRestoredAPIServer"); err != nil {
		t.Error(err)
	}
}

func restoreGamma(t *testing.T, g *group, docs *documents.Reader, agentDown bool, ahead int) {
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
	g.alphaAwaitsGamma(t, "later")
	if err := errors.Join(g.alpha.KillAgent(), g.alpha.StartAgent(t.Context())); err != nil {
		t.Fatal(err)
	}
	stays(t, "an agent that is started meanwhile waits as well", 2*quiet, hasCopy(g.alpha, g.gamma, "later", "one"))
	g.alphaAwaitsGamma(t, "later")

	g.confirmAsDocumented(t, docs)
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
	g.alphaAwaitsGamma(t, "deleted")
	stays(t, "what is back is not copied", 2*quiet, noSecret(g.alpha, "deleted"))
	g.confirmGamma(t)
	eventually(t, "confirmed, it is", afterFault, hasCopy(g.alpha, g.gamma, "deleted", "one"))
	g.eventuallyWhole(t, afterFault)
}

// A restore is confirmed once, also if the agent is killed at once, or when it has just recorded that: neither how far the
// API server was nor the epoch, which were both later than in the backup, is taken for another restore by the next start.
func TestConfirmedOnce(t *testing.T) {
	g := joined(t)
	g.cleanUp(t, "later")
	for _, untilRecorded := range []bool{true, false} {
		if err := g.gamma.Backup(t.Context()); err != nil {
			t.Fatal(err)
		}
		g.openLaterEpochInGamma(t)
		apply(t, g.gamma, rule("later", "later")) // how far gamma is becomes durable with what it publishes
		eventually(t, "the later rule is in alpha", afterFault, hasRule(g.alpha, "later"))
		kubectl(t, g.gamma, "delete", "resourcesyncrule", "later")
		eventually(t, "the later rule is gone", afterFault, noRule(g.alpha, "later"))
		if err := g.gamma.Restore(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		g.gammaIsFrozen(t)
		g.confirmGamma(t)
		if untilRecorded {
			eventually(t, "the confirmation is recorded", afterFault, g.recordsNoFreeze)
		}
		if err := errors.Join(g.gamma.KillAgent(), g.gamma.StartAgent(t.Context())); err != nil {
			t.Fatal(err)
		}
		eventually(t, "gamma knows that it was confirmed", afterFault, g.recordsNoFreeze)
		stays(t, "gamma does not ask again", 2*quiet, g.recordsNoFreeze)
		g.eventuallyWhole(t, afterFault)
	}
}

// openLaterEpochInGamma starts gamma's agent again, as after another agent of that cluster, so that it opens an epoch.
func (g *group) openLaterEpochInGamma(t *testing.T) {
	t.Helper()
	if err := g.gamma.KillAgent(); err != nil {
		t.Fatal(err)
	}
	last, err := strconv.Atoi(epochOf(t, g.gamma))
	if err != nil {
		t.Fatal(err)
	}
	kubectl(t, g.gamma, "patch", "secret", "roster-identity", "--namespace="+v1alpha1.PrivateNamespace(harness.Namespace),
		"--type=merge", fmt.Sprintf(`--patch={"stringData":{"epoch":"%d"}}`, last+1))
	if err := g.gamma.StartAgent(t.Context()); err != nil {
		t.Fatal(err)
	}
	if now := epochOf(t, g.gamma); now != strconv.Itoa(last+2) {
		t.Fatalf("gamma is in epoch %s after %d", now, last)
	}
}

// recordsNoFreeze is nil if gamma's agent has not recorded that it waits for a confirmation.
func (g *group) recordsNoFreeze(ctx context.Context) error {
	secret, err := g.gamma.Kube.CoreV1().Secrets(v1alpha1.PrivateNamespace(harness.Namespace)).Get(ctx, "roster-identity", metav1.GetOptions{})
	if err == nil && len(secret.Data["restored"]) > 0 {
		err = fmt.Errorf("a freeze is recorded: %s", secret.Data["restored"])
	}
	return err
}

// An agent that is started between the restore of a cluster and its confirmation knows how far that cluster was: it
// neither deletes what the backup lacks nor puts back what was changed since.
func TestRestoredBeforeTheReaderIsStarted(t *testing.T) {
	g := joined(t)
	for _, name := range []string{"old", "later"} {
		g.cleanUp(t, name)
	}
	g.share(t, "old", "one")
	if err := g.gamma.Backup(t.Context()); err != nil {
		t.Fatal(err)
	}
	g.share(t, "later", "one")
	putSecret(t, g.gamma, "old", "two")
	eventually(t, "the change is in alpha", afterFault, hasCopy(g.alpha, g.gamma, "old", "two"))
	recorded := positionsRecord(t, g.alpha)
	// It records soon after its start, and then seldom.
	if err := errors.Join(g.alpha.KillAgent(), g.alpha.StartAgent(t.Context())); err != nil {
		t.Fatal(err)
	}
	eventually(t, "alpha has recorded how far gamma is", time.Minute, func(context.Context) error {
		if positionsRecord(t, g.alpha) == recorded {
			return errors.New("the record is as it was")
		}
		return nil
	})
	if err := g.alpha.KillAgent(); err != nil {
		t.Fatal(err)
	}
	if err := g.gamma.Restore(t.Context(), 3000); err != nil {
		t.Fatal(err)
	}
	if err := g.alpha.StartAgent(t.Context()); err != nil {
		t.Fatal(err)
	}
	g.alphaAwaitsGamma(t, "old")
	stays(t, "what gamma has lost stays in alpha", 2*quiet, func(ctx context.Context) error {
		return errors.Join(hasCopy(g.alpha, g.gamma, "old", "two")(ctx), hasCopy(g.alpha, g.gamma, "later", "one")(ctx))
	})
	g.gammaIsFrozen(t)
	g.confirmGamma(t)
	eventually(t, "confirmed, the later Secret is gone", afterFault, noSecret(g.alpha, "later"))
	eventually(t, "confirmed, the earlier value is there", afterFault, hasCopy(g.alpha, g.gamma, "old", "one"))
	g.eventuallyWhole(t, afterFault)
}

// positionsRecord is the version of what a cluster's agent has recorded of other clusters' API servers, "" for nothing.
func positionsRecord(t *testing.T, c *harness.Cluster) string {
	t.Helper()
	secret, err := c.Kube.CoreV1().Secrets(harness.Namespace+"-private").Get(t.Context(), "roster-positions", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	return secret.ResourceVersion
}

// alphaAwaitsGamma waits until a rule in alpha says that gamma went back.
func (g *group) alphaAwaitsGamma(t *testing.T, name string) {
	t.Helper()
	eventually(t, "the rule in alpha says what its copies wait for", afterFault, func(ctx context.Context) error {
		u, err := get(ctx, g.alpha, harness.Rules(), "", name)
		if err != nil {
			return err
		}
		if c := harness.Condition(u, "Ready"); c["reason"] != "SourceRestored" {
			return fmt.Errorf("Ready is %v, %v: %v", c["status"], c["reason"], c["message"])
		}
		return nil
	})
}

// confirmGamma says that gamma is to go on from what it has. An API server that was started a second ago may not yet take
// it: whoever confirms would then do so again.
func (g *group) confirmGamma(t *testing.T) {
	t.Helper()
	eventually(t, "gamma is confirmed", afterFault, func(ctx context.Context) error {
		_, err := g.Agentctl(ctx, "restore", "confirm", "--context", g.gamma.Name, "--yes")
		return err
	})
}

// confirmAsDocumented types what docs/restore.md says.
func (g *group) confirmAsDocumented(t *testing.T, docs *documents.Reader) {
	t.Helper()
	shell := func(ctx context.Context, line string) (string, error) { return g.Shell(ctx, g.Dir, line) }
	types := func(docs *documents.Reader, begins string, texts ...string) {
		t.Helper()
		line, err := docs.Lines(documents.Restore, begins)
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, line, afterFault, documents.Prints(shell, line, texts...))
	}
	types(docs.With("kubectl get", "kubectl --context gamma get"), "kubectl get clusters -o wide", "gamma", "Failed", "went back in time")
	types(docs, "agentctl restore confirm --context gamma --dry-run")
	types(docs, "agentctl restore confirm --context gamma")
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
		if text := fmt.Sprint(c["message"]); c["status"] != "False" || !strings.Contains(text, v1alpha1.CommandConfirmRestore) {
			return fmt.Errorf("Ready is %v: %s", c["status"], text)
		}
		return nil
	})
}
