// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/e2e/harness"
)

const canaries = "roster-verify-"

// A canary comes, changes and goes in each cluster, nothing of it stays, and what a person calls by such a name is left alone.
func TestVerify(t *testing.T) {
	g := joined(t)
	t.Cleanup(func() { deleteSecret(t, g.alpha, canaries+"mine") })
	putSecret(t, g.alpha, canaries+"mine", "kept")
	for name, args := range map[string][]string{
		"beta,beta":  {"leads to a cluster that another context leads to"},
		"beta,alpha": {"leads to the cluster of --context"},
		"delta":      {"no Cluster object of this cluster itself"},
		"beta,":      {"has an empty part"},
	} {
		if a := g.ask(t.Context(), "verify", "--context", "alpha", "--peer-context", name); a.code != 2 && name != "delta" || a.code != 6 && name == "delta" || !strings.Contains(a.out, args[0]) {
			t.Errorf("--peer-context %s ends with %d:\n%s", name, a.code, a.out)
		}
	}
	args := []string{"verify", "--context", "alpha", "--peer-context", "beta,gamma"}
	g.expect(t, 0, append(args, "--dry-run"), "would copy a Secret of namespace cluster-registry from cluster alpha to cluster gamma")
	eventually(t, "nothing is there after a dry run", within, g.noCanaries)

	out := agentctl(t, g, append(args, "-o", "json", "--timeout", "1m")...)
	var r struct {
		Name     string
		Clusters []struct {
			Cluster                                                  string
			RuleSeconds, CreateSeconds, UpdateSeconds, DeleteSeconds *float64
			Message                                                  string
		}
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil || len(r.Clusters) != 2 || !strings.HasPrefix(r.Name, canaries) {
		t.Fatalf("%v:\n%s", err, out)
	}
	for _, c := range r.Clusters {
		for _, took := range []*float64{c.RuleSeconds, c.CreateSeconds, c.UpdateSeconds, c.DeleteSeconds} {
			if took == nil || *took <= 0 || c.Message != "" {
				t.Errorf("%s was not measured:\n%s", c.Cluster, out)
			}
		}
	}
	if err := g.noCanaries(t.Context()); err != nil { // at once: the command has waited for it
		t.Error(err)
	}
	t.Log(g.expect(t, 0, append(args, "--timeout", "1m"), "CLUSTER   RULE", "the copy is gone in 2 clusters", "gamma"))
	g.expect(t, 0, []string{"verify", "--context", "alpha", "--clean"})
	g.verifyUnread(t, args)
	if u, err := get(t.Context(), g.alpha, harness.Secrets(), harness.Namespace, canaries+"mine"); err != nil || hasValue(g.alpha, u, "kept") != nil {
		t.Errorf("the Secret of a person is %v, %v", u, err)
	}
}

// verifyUnread: it goes on to the end where nobody reads what it says.
func (g *group) verifyUnread(t *testing.T, args []string) {
	t.Helper()
	bin, err := harness.FindBinaries()
	if err != nil {
		t.Fatal(err)
	}
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	_ = reader.Close() // whoever reads has gone
	cmd := exec.CommandContext(t.Context(), bin.Agentctl, append(args, "--timeout", "1m", "--kubeconfig", g.Kubeconfig)...)
	cmd.Stdout, cmd.Stderr = writer, writer
	_ = cmd.Run() // it cannot print
	if !cmd.ProcessState.Exited() {
		t.Errorf("it ends by %s", cmd.ProcessState)
	}
	if err := g.noCanaries(t.Context()); err != nil {
		t.Error(err)
	}
}

// A cluster refuses the copy: it is named, the other one is measured, and nothing stays. A run that is interrupted while it waits
// for that cluster deletes everything; what one leaves that is killed, a later run deletes, but not before its time.
func TestVerifyIsKilled(t *testing.T) {
	g := joined(t)
	noCanariesInBeta(t, g.beta)
	args := []string{"verify", "--context", "alpha", "--peer-context", "beta,gamma"}
	g.expect(t, 3, append(args, "--timeout", "10s"), "the copy has not come", "not all happened within 10s", "the copy is gone in 1 cluster")
	if err := g.noCanaries(t.Context()); err != nil {
		t.Error(err)
	}
	bin, err := harness.FindBinaries()
	if err != nil {
		t.Fatal(err)
	}
	end := func(signal syscall.Signal) (string, int) {
		t.Helper()
		cmd := exec.CommandContext(lasting(t), bin.Agentctl, append(args, "--timeout", "5m", "--kubeconfig", g.Kubeconfig)...)
		var out locked
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the canary is in gamma", within, func(ctx context.Context) error {
			if g.noCanariesIn(ctx, g.gamma, harness.Secrets()) == nil {
				return fmt.Errorf("it is not: %s", out.String())
			}
			return nil
		})
		if err := cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // its exit code is looked at
		return out.String(), cmd.ProcessState.ExitCode()
	}

	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP} {
		if out, code := end(signal); code != 1 || !strings.Contains(out, "interrupted; what was made is deleted again") {
			t.Errorf("by %s, it ends with %d:\n%s", signal, code, out)
		}
		if err := g.noCanaries(t.Context()); err != nil {
			t.Error(err)
		}
	}

	end(syscall.SIGKILL)
	rest := []string{"verify", "--context", "alpha", "--peer-context", "gamma"}
	if out := g.expect(t, 0, rest); strings.Contains(out, "an earlier run has left") {
		t.Errorf("what may still be there is deleted:\n%s", out)
	}
	if g.noCanariesIn(t.Context(), g.alpha, harness.Secrets()) == nil {
		t.Error("the run that was killed has left nothing, so this proves nothing")
	}
	past := "local.cluster-registry.k8s.cisco.com/verify-until=2026-01-01T00:00:00Z"
	kubectl(t, g.alpha, "annotate", "--overwrite", "rsr", "-l", "local.cluster-registry.k8s.cisco.com/verify=canary", past)
	g.expect(t, 0, rest, "deleted what an earlier run has left: "+canaries)
	eventually(t, "nothing is left of the run that was killed", afterFault, g.noCanaries)

	end(syscall.SIGKILL)
	g.expect(t, 0, []string{"verify", "--context", "alpha", "--clean", "--dry-run"}, "would delete what an earlier run has left: "+canaries)
	g.expect(t, 0, []string{"verify", "--context", "alpha", "--clean"}, "deleted what an earlier run has left: "+canaries)
	eventually(t, "nothing is left after --clean", afterFault, g.noCanaries)
}

// noCanaries: no object and no rule of a run is in any cluster.
func (g *group) noCanaries(ctx context.Context) error {
	for _, c := range g.Clusters[:3] {
		if err := g.noCanariesIn(ctx, c, harness.Rules()); err != nil {
			return err
		}
		if err := g.noCanariesIn(ctx, c, harness.Secrets()); err != nil {
			return err
		}
	}
	return nil
}

func (g *group) noCanariesIn(ctx context.Context, c *harness.Cluster, resource schema.GroupVersionResource) error {
	list, err := c.Dynamic.Resource(resource).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, u := range list.Items {
		if strings.HasPrefix(u.GetName(), canaries) && u.GetName() != canaries+"mine" {
			return fmt.Errorf("in %s: %s %s is there", c.Name, resource.Resource, u.GetName())
		}
	}
	return nil
}

// noCanariesInBeta has the API server refuse copies of canaries.
func noCanariesInBeta(t *testing.T, c *harness.Cluster) {
	t.Helper()
	t.Cleanup(func() {
		kubectl(t, c, "delete", "validatingadmissionpolicy,validatingadmissionpolicybinding", "no-canaries")
	})
	apply(t, c, `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: no-canaries}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [secrets]}]}
  validations: [{expression: "!object.metadata.name.startsWith('roster-verify-')", message: no canaries here}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: no-canaries}
spec: {policyName: no-canaries, validationActions: [Deny]}
`)
	eventually(t, "the policy is in force", within, func(ctx context.Context) error {
		_, err := c.Kubectl(ctx, "create", "secret", "generic", canaries+"x", "-n", harness.Namespace, "--dry-run=server")
		if err == nil || !strings.Contains(err.Error(), "no canaries here") {
			return fmt.Errorf("it is not: %v", err) //nolint:errorlint // it is printed
		}
		return nil
	})
}
