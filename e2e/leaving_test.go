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

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/roster-mesh/roster/e2e/harness"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// What a removal may take from when it is ordered: detached, until no member has the pin, or a connection, of who was removed; revoked, until
// a credential of it works no more. A busy machine gets ten times what the slowest request takes there meanwhile more.
const (
	detached = 5 * time.Second
	revoked  = 15 * time.Second
)

// TestRemove: gamma is removed while it is a source of copies, and admitted again.
func TestRemove(t *testing.T) {
	g := joined(t)
	g.cleanUp(t, "removed")
	g.cleanUp(t, "gammas")
	g.share(t, "removed", "one")
	putSecret(t, g.gamma, "gammas", "one")
	apply(t, g.gamma, rule("gammas", "gammas"))
	for _, c := range []*harness.Cluster{g.alpha, g.beta} {
		eventually(t, "gamma's own rule is in force in "+c.Name, within, hasCopy(c, g.gamma, "gammas", "one"))
	}
	stale := g.clusterYAML(t, g.alpha, g.gamma)
	credential := g.credentialOf(t, g.gamma, g.alpha)
	id := clusterID(t, g.gamma)
	if err := canRead(t.Context(), credential); err != nil {
		t.Fatal("gamma cannot read alpha to begin with:", err)
	}

	out := agentctl(t, g, "remove", "gamma", "--context", "alpha", "--dry-run")
	for _, want := range []string{"would become orphans", "of kind Secret from cluster gamma", harness.Namespace + "/removed", "rules would be paused: gammas", "not known from here"} {
		if !strings.Contains(out, want) {
			t.Errorf("the dry run does not say %q:\n%s", want, out)
		}
	}
	for _, args := range [][]string{{"remove", "--context", "alpha"}, {"remove", "gam", "--context", "alpha"}, {"remove", "alpha", "--context", "alpha"}} {
		if out, err := g.Agentctl(t.Context(), args...); err == nil {
			t.Errorf("agentctl %v: %s", args, out)
		}
	}
	g.restoreGroup(t)
	ended := g.watchEnd(t, privateKey(t, g.gamma), credential, g.credentialOf(t, g.gamma, g.beta))
	t.Log(agentctl(t, g, "remove", "gamma", "--context", "alpha"))
	ended(t)
	for _, c := range []*harness.Cluster{g.alpha, g.beta} {
		eventually(t, "gamma is not listed in "+c.Name, within, absent(c, harness.Clusters(), "", "gamma"))
		eventually(t, "its copy is an orphan in "+c.Name, within, isOrphan(c, "removed"))
		eventually(t, "its rule is an orphan in "+c.Name, within, ruleIsOrphan(c, "gammas"))
		eventually(t, c.Name+" has no credential for it", within, func(ctx context.Context) error {
			_, err := c.Kube.CoreV1().Secrets(v1alpha1.PrivateNamespace(harness.Namespace)).Get(ctx, "peer-"+id, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return errors.Join(errors.New("it has"), err)
		})
	}
	eventually(t, "gamma says that it was removed", afterFault, saysRemoved(g.gamma, "alpha"))
	if out, err := g.Agentctl(t.Context(), "status", "--context", "gamma"); err == nil || !strings.Contains(out+err.Error(), "--replace-key") {
		t.Errorf("agentctl status in gamma: %v\n%s", err, out)
	}

	// The key stays out: after a restart of everybody, pasted by hand, and by a swap.
	for _, c := range g.Clusters[:3] {
		if err := c.RestartAgent(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	apply(t, g.beta, stale)
	eventually(t, "a stale Cluster object is refused", afterFault, func(ctx context.Context) error {
		u, err := get(ctx, g.beta, harness.Clusters(), "", "gamma")
		if err != nil {
			return err
		}
		if c := harness.Condition(u, v1alpha1.ConditionReady); c["status"] != "False" || c["reason"] != v1alpha1.MemberRemoved {
			return fmt.Errorf("Ready is %v, %v: %v", c["status"], c["reason"], c["message"])
		}
		return nil
	})
	if out, err := g.Agentctl(t.Context(), "join", "--context", "gamma", "--peer-context", "alpha", "--timeout", "20s"); err == nil || !strings.Contains(out+err.Error(), "--replace-key") {
		t.Errorf("a swap with the old key: %v\n%s", err, out)
	}
	stays(t, "gamma stays out", 2*quiet, func(ctx context.Context) error {
		return errors.Join(isOrphan(g.alpha, "removed")(ctx), saysRemoved(g.gamma, "alpha")(ctx))
	})
	kubectl(t, g.beta, "delete", "cluster", "gamma")

	t.Log(agentctl(t, g, "join", "--replace-key", "--context", "gamma", "--peer-context", "beta"))
	eventually(t, "gamma waits in alpha", afterFault, waitsIn(g.alpha, "gamma"))
	stays(t, "and alpha has nothing of it", quiet, func(ctx context.Context) error {
		return errors.Join(absent(g.alpha, harness.Clusters(), "", "gamma")(ctx), isOrphan(g.alpha, "removed")(ctx), ruleIsOrphan(g.alpha, "gammas")(ctx), waitsIn(g.alpha, "gamma")(ctx))
	})
	refused := map[string][]string{
		`no cluster "gam" waits to be admitted in context alpha; these do: gamma`: {"gam", "--context", "alpha"},
		`no cluster waits to be admitted in context beta`:                         {"gamma", "--contexts", "alpha,beta"},
		`and not with ` + v1alpha1.KeyFingerprint(nil):                            {"gamma", "--context", "alpha", "--key", v1alpha1.KeyFingerprint(nil)},
		`atlantis`: {"gamma", "--contexts", "atlantis"},
	}
	for want, args := range refused {
		if out, err := g.Agentctl(t.Context(), append([]string{"approve"}, args...)...); err == nil || !strings.Contains(out+err.Error(), want) {
			t.Errorf("approve %v: %v\n%s", args, err, out)
		}
	}
	g.admit(t, "gamma", g.alpha)
	g.eventuallyWhole(t, afterFault)
	for _, c := range []*harness.Cluster{g.alpha, g.beta} {
		eventually(t, "the orphan is adopted again in "+c.Name, afterFault, hasCopy(c, g.gamma, "removed", "one"))
		eventually(t, "the rule of gamma is in force again in "+c.Name, afterFault, hasCopy(c, g.gamma, "gammas", "one"))
	}
	putSecret(t, g.gamma, "removed", "two")
	eventually(t, "and follows its source", within, hasCopy(g.beta, g.gamma, "removed", "two"))
}

// TestLeave: gamma leaves, is alone, and joins again.
func TestLeave(t *testing.T) {
	g := joined(t)
	g.cleanUp(t, "left")
	g.cleanUp(t, "kept")
	g.share(t, "left", "one")
	putSecret(t, g.alpha, "kept", "one")
	apply(t, g.alpha, rule("kept", "kept"))
	eventually(t, "gamma has a copy", within, hasCopy(g.gamma, g.alpha, "kept", "one"))
	credential := g.credentialOf(t, g.gamma, g.alpha)
	back := g.credentialOf(t, g.alpha, g.gamma)
	if out := agentctl(t, g, "leave", "--context", "gamma", "--dry-run"); !strings.Contains(out, "of kind Secret from cluster alpha: "+harness.Namespace+"/kept") {
		t.Errorf("the dry run: %s", out)
	}
	g.restoreGroup(t)
	began := time.Now()
	t.Log(agentctl(t, g, "leave", "--context", "gamma"))
	t.Logf("left after %v", time.Since(began))
	for _, c := range []*harness.Cluster{g.alpha, g.beta} {
		eventually(t, "gamma is not listed in "+c.Name, within, absent(c, harness.Clusters(), "", "gamma"))
		eventually(t, "its copy is an orphan in "+c.Name, within, isOrphan(c, "left"))
	}
	eventually(t, "gamma lists itself alone", within, func(ctx context.Context) error {
		list, err := g.gamma.Dynamic.Resource(harness.Clusters()).List(ctx, metav1.ListOptions{})
		if err == nil && len(list.Items) != 1 {
			err = fmt.Errorf("it lists %d clusters", len(list.Items))
		}
		return err
	})
	eventually(t, "its copies are orphans", within, isOrphan(g.gamma, "kept"))
	eventually(t, "the rule of alpha there is one", within, ruleIsOrphan(g.gamma, "kept"))
	for _, c := range []*rest.Config{credential, back} {
		eventually(t, "credentials are refused", afterFault, func(ctx context.Context) error {
			if err := canRead(ctx, c); !apierrors.IsUnauthorized(err) {
				return fmt.Errorf("not Unauthorized: %w", err)
			}
			return nil
		})
	}
	if err := g.gamma.AgentReady(t.Context()); err != nil {
		t.Error("the agent of a cluster that left is not ready:", err)
	}
	eventually(t, "alpha and beta go on", within, listEachOther(g.alpha, g.beta))
	t.Log(agentctl(t, g, "join", "--context", "gamma", "--peer-context", "alpha"))
	g.eventuallyWhole(t, afterFault)
	eventually(t, "orphans are adopted again", afterFault, hasCopy(g.beta, g.gamma, "left", "one"))
	eventually(t, "on both sides", afterFault, hasCopy(g.gamma, g.alpha, "kept", "one"))
}

// TestLostKeyIsReplaced: the Secret with gamma's key is gone, and so is what it recorded. Nobody but a person has it
// replaced.
func TestLostKeyIsReplaced(t *testing.T) {
	g := joined(t)
	g.restoreGroup(t)
	if err := g.gamma.StopAgent(); err != nil {
		t.Fatal(err)
	}
	private := g.gamma.Kube.CoreV1().Secrets(v1alpha1.PrivateNamespace(harness.Namespace))
	if err := private.Delete(t.Context(), "roster-identity", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := g.gamma.LaunchAgent("--keep-trying"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the agent says what to do", within, func(ctx context.Context) error {
		if _, err := g.gamma.AgentHTTP(ctx, "/readyz"); err == nil || !strings.Contains(err.Error(), "--replace-key") {
			return fmt.Errorf("/readyz: %w", err)
		}
		return nil
	})
	t.Log(agentctl(t, g, "join", "--replace-key", "--context", "gamma", "--peer-context", "alpha"))
	g.admit(t, "gamma", g.beta) // nobody could sign that it left, so alpha has removed the old key
	g.eventuallyWhole(t, afterFault)
}

// TestRemovedWhileCutOff: gamma is removed while nobody reaches it, while beta's agent is down; both hear of it when
// they return.
func TestRemovedWhileCutOff(t *testing.T) {
	g := joined(t)
	if !g.isolated {
		t.Skip("needs root: agents are told apart by their users, in a network namespace")
	}
	g.cleanUp(t, "cut-off")
	g.share(t, "cut-off", "one")
	g.restoreGroup(t)
	heal := func(ctx context.Context) error {
		return errors.Join(g.Heal(ctx, g.alpha, g.gamma), g.Heal(ctx, g.beta, g.gamma))
	}
	t.Cleanup(func() {
		if err := heal(lasting(t)); err != nil {
			t.Error(err)
		}
	})
	for _, c := range []*harness.Cluster{g.alpha, g.beta} {
		if err := g.Cut(t.Context(), c, g.gamma); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.beta.StopAgent(); err != nil {
		t.Fatal(err)
	}
	out, err := g.Agentctl(t.Context(), "remove", "gamma", "--context", "alpha", "--timeout", "15s")
	if err == nil || !strings.Contains(out+err.Error(), "beta") {
		t.Errorf("a removal that beta cannot confirm: %v\n%s", err, out)
	}
	eventually(t, "gamma is not listed in alpha", within, absent(g.alpha, harness.Clusters(), "", "gamma"))
	if err := g.alpha.RestartAgent(t.Context()); err != nil { // it asks beta again, too
		t.Fatal(err)
	}
	if err := g.beta.StartAgent(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "beta hears of it when it returns", afterFault, absent(g.beta, harness.Clusters(), "", "gamma"))
	eventually(t, "and marks its copies", afterFault, isOrphan(g.beta, "cut-off"))
	eventually(t, "alpha says that all have confirmed it", afterFault, func(ctx context.Context) error {
		u, err := get(ctx, g.alpha, harness.Clusters(), "", "alpha")
		if err != nil {
			return err
		}
		return harness.ConditionTrue(u, v1alpha1.ConditionRemovalsConfirmed)
	})
	if err := heal(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "gamma is told when it returns", afterFault, saysRemoved(g.gamma, "alpha"))
	eventually(t, "and its copies are orphans", afterFault, absent(g.gamma, harness.Clusters(), "", "alpha"))
}

// restoreGroup brings gamma back should the test end while it is out.
func (g *group) restoreGroup(t *testing.T) {
	t.Cleanup(func() {
		ctx := lasting(t)
		if g.whole(ctx) == nil {
			return
		}
		if out, err := g.Agentctl(ctx, "join", "--replace-key", "--yes", "--context", "gamma", "--peer-context", "alpha"); err != nil {
			t.Errorf("bring gamma back: %v\n%s", err, out)
		}
		g.eventuallyWholeAgain(t)
	})
}

func agentctl(t *testing.T, g *group, args ...string) string {
	t.Helper()
	out, err := g.Agentctl(lasting(t), args...)
	if err != nil {
		t.Fatalf("agentctl %v: %v\n%s", args, err, out)
	}
	return out
}

func clusterID(t *testing.T, c *harness.Cluster) string {
	t.Helper()
	id, err := c.ID(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// clusterYAML is the Cluster object of a cluster as it is in another one, to be pasted.
func (g *group) clusterYAML(t *testing.T, at, of *harness.Cluster) string {
	t.Helper()
	u, err := get(t.Context(), at, harness.Clusters(), "", of.Name)
	if err != nil {
		t.Fatal(err)
	}
	clean := &unstructured.Unstructured{Object: map[string]any{"apiVersion": u.GetAPIVersion(), "kind": u.GetKind(), "spec": u.Object["spec"]}}
	clean.SetName(of.Name)
	data, err := clean.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// credentialOf is what holder's agent reads the cluster of with.
func (g *group) credentialOf(t *testing.T, holder, of *harness.Cluster) *rest.Config {
	t.Helper()
	var config *rest.Config
	eventually(t, holder.Name+" has a credential of its own for "+of.Name, afterFault, func(ctx context.Context) error {
		secret, err := holder.Kube.CoreV1().Secrets(v1alpha1.PrivateNamespace(harness.Namespace)).Get(ctx, "peer-"+clusterID(t, of), metav1.GetOptions{})
		if err != nil {
			return err
		}
		config, err = clientcmd.RESTConfigFromKubeConfig(secret.Data["kubeconfig"])
		return err
	})
	return config
}

// canRead makes a request with a credential over a new connection.
func canRead(ctx context.Context, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(rest.CopyConfig(config))
	if err != nil {
		return err
	}
	_, err = client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	return err
}

func isOrphan(c *harness.Cluster, name string) func(context.Context) error {
	return func(ctx context.Context) error {
		u, err := get(ctx, c, harness.Secrets(), harness.Namespace, name)
		if err != nil {
			return err
		}
		if _, found := u.GetAnnotations()[v1alpha1.AnnotationOrphaned]; !found || u.GetLabels()[v1alpha1.LabelOwnerClusterID] == "" {
			return fmt.Errorf("in %s: %s is not an orphan: %v", c.Name, name, u.GetAnnotations())
		}
		return nil
	}
}

func ruleIsOrphan(c *harness.Cluster, name string) func(context.Context) error {
	return func(ctx context.Context) error {
		u, err := get(ctx, c, harness.Rules(), "", name)
		if err != nil {
			return err
		}
		if cond := harness.Condition(u, "Ready"); cond["reason"] != "Orphaned" {
			return fmt.Errorf("in %s: rule %s is Ready=%v, %v: %v", c.Name, name, cond["status"], cond["reason"], cond["message"])
		}
		return nil
	}
}

// saysRemoved: the cluster's own object says by whom it was removed, and what to do.
func saysRemoved(c *harness.Cluster, by string) func(context.Context) error {
	return func(ctx context.Context) error {
		u, err := get(ctx, c, harness.Clusters(), "", c.Name)
		if err != nil {
			return err
		}
		cond := harness.Condition(u, v1alpha1.ConditionReady)
		text := fmt.Sprint(cond["message"])
		if cond["reason"] != v1alpha1.MemberRemoved || !strings.Contains(text, "by cluster "+by) || !strings.Contains(text, "--replace-key") {
			return fmt.Errorf("Ready is %v, %v: %s", cond["status"], cond["reason"], text)
		}
		return nil
	}
}
