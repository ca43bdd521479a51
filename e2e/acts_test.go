// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/roster-mesh/roster/e2e/harness"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// A rule is paused and goes on, where it is from; its copies become orphans with its end, and a person takes one over and
// deletes another. Nobody types an annotation.
func TestRuleIsPausedAndItsOrphansSettled(t *testing.T) {
	g := joined(t)
	name := fmt.Sprintf("acts-%d", time.Now().UnixNano())
	g.cleanUp(t, name)
	apply(t, g.alpha, rule(name, name))
	putSecret(t, g.gamma, name, "one")
	for _, c := range g.Clusters[:2] {
		eventually(t, "the Secret is in "+c.Name, afterFault, hasCopy(c, g.gamma, name, "one"))
	}
	eventually(t, "the group is healthy", afterFault, g.asks(0, []string{"status", "--context", "alpha", "--wait", "healthy", "--timeout", "1m"}, "alpha: healthy"))

	g.expect(t, 0, []string{"rules", "pause", name, "--context", "alpha", "--dry-run"}, "would be changed: it is paused then")
	g.expect(t, 0, []string{"rules", "pause", name, "--context", "alpha"}, "rule "+name+": it is paused")
	g.expect(t, 1, []string{"rules", "resume", name, "--context", "beta"}, "rule "+name+" is of cluster alpha: run agentctl rules resume "+name+" in a context of that cluster")
	eventually(t, "beta says so, too", afterFault, ruleIs(g.beta, name, "False", "Paused"))
	putSecret(t, g.gamma, name, "two")
	stays(t, "a copy of a paused rule stays as it is", quiet, hasCopy(g.beta, g.gamma, name, "one"))
	g.expect(t, 0, []string{"rules", "resume", name, "--context", "alpha"}, "it goes on")
	eventually(t, "the copy follows", afterFault, hasCopy(g.beta, g.gamma, name, "two"))
	g.expect(t, 1, []string{"guard", "confirm", name, "--context", "beta"}, "the deletion guard has not stopped rule "+name)
	g.expect(t, 1, []string{"restore", "confirm", "--context", "beta"}, "cluster beta does not wait for a confirmation")
	g.expect(t, 1, []string{"orphans", "delete", "secret/" + name, "-n", harness.Namespace, "--context", "beta"}, "is no orphan: its agent maintains it")

	kubectl(t, g.alpha, "delete", "rsr", name)
	for _, c := range g.Clusters[:2] {
		eventually(t, "the copy in "+c.Name+" is an orphan", afterFault, func(ctx context.Context) error {
			u, err := get(ctx, c, harness.Secrets(), harness.Namespace, name)
			if err == nil && u.GetAnnotations()[v1alpha1.AnnotationOrphaned] == "" {
				err = errors.New("not yet")
			}
			return err
		})
	}
	g.expect(t, 0, []string{"orphans", "list", "--context", "beta", "-o", "name"}, "secret/"+name)
	g.expect(t, 0, []string{"orphans", "list", "--context", "beta"}, "secret", harness.Namespace, name, "gamma")
	g.expect(t, 0, []string{"orphans", "adopt", "secret/" + name, "-n", harness.Namespace, "--context", "beta", "--dry-run"}, "would be adopted")
	g.expect(t, 0, []string{"orphans", "adopt", "secret/" + name, "-n", harness.Namespace, "--context", "beta"}, "secret/"+name+" in namespace "+harness.Namespace+" adopted")
	u, err := get(t.Context(), g.beta, harness.Secrets(), harness.Namespace, name)
	if err != nil {
		t.Fatal(err)
	}
	if marks := fmt.Sprint(u.GetLabels(), u.GetAnnotations()); strings.Contains(marks, v1alpha1.Prefix) {
		t.Errorf("what was adopted has %s", marks)
	}
	g.expect(t, 0, []string{"orphans", "delete", "secret/" + name, "-n", harness.Namespace, "--context", "alpha", "--dry-run"}, "would be deleted")
	if err := present(g.alpha, harness.Secrets(), harness.Namespace, name)(t.Context()); err != nil {
		t.Fatal(err)
	}
	g.expect(t, 0, []string{"orphans", "delete", "secret/" + name, "-n", harness.Namespace, "--context", "alpha"}, " deleted")
	if err := noSecret(g.alpha, name)(t.Context()); err != nil {
		t.Error(err)
	}
}
