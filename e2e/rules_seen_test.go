// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/e2e/harness"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// What kubectl shows of a rule: the columns, and the events, summed up.
func TestRuleIsShown(t *testing.T) {
	r := newRoom(t)
	put(t, r.gamma, configMaps, r.object(configMaps, "one", "all", "1"))
	put(t, r.gamma, configMaps, r.object(configMaps, "taken", "all", "1"))
	put(t, r.beta, configMaps, r.object(configMaps, "taken", "none", "mine"))
	r.rule(t, r.alpha, "maps", ofConfigMaps+"rules: [{"+forLabel("all")+"}]")
	eventually(t, "the rule in beta says what is in the way", afterFault, r.ruleSays(r.beta, "maps", "False", "Conflict"))
	name := r.name + "-maps"
	eventually(t, "kubectl get rsr shows how it fares", within, func(context.Context) error {
		lines := strings.Split(strings.TrimSpace(kubectl(t, r.beta, "get", "rsr", name)), "\n")
		if want := "NAME READY MATCHED SYNCED FAILED CONFLICTS DRIFTED AGE"; len(lines) != 2 || strings.Join(strings.Fields(lines[0]), " ") != want {
			return fmt.Errorf("it prints %q, not the columns %s", lines, want)
		}
		if row := strings.Fields(lines[1]); len(row) != 7 || !slices.Equal(row[:6], []string{name, "False", "2", "1", "0", "1"}) {
			return fmt.Errorf("it prints %q", row)
		}
		return nil
	})
	eventually(t, "kubectl describe rsr shows what to do and what happened", within, func(context.Context) error {
		out := kubectl(t, r.beta, "describe", "rsr", name)
		for _, want := range []string{"an object of this cluster has the name", "ObjectReconciled", "ObjectNotReconciled", "Cluster:  "} {
			if !strings.Contains(strings.ReplaceAll(out, "   ", "  "), want) {
				return fmt.Errorf("it lacks %q:\n%s", want, out)
			}
		}
		return nil
	})
}

// Copies are wanted where the labels of the Cluster object say so, and let go of where they do not any more.
func TestTargetsOfARule(t *testing.T) {
	r := newRoom(t)
	label := func(c *harness.Cluster, value string) {
		kubectl(t, c, "label", "--overwrite", "cluster", c.Name, "tier"+value)
	}
	label(r.beta, "=edge")
	t.Cleanup(func() { label(r.beta, "-") })
	r.rule(t, r.alpha, "edge", ofConfigMaps+"targets: {matchLabels: {tier: edge}}, ruleDeletionPolicy: Delete, rules: [{"+forLabel("all")+"}]")
	put(t, r.gamma, configMaps, r.object(configMaps, "one", "all", "1"))
	r.eventuallyCopied(t, configMaps, "one", "1", r.beta)
	eventually(t, "the rule in alpha says that it is no target", afterFault, r.ruleSays(r.alpha, "edge", "True", "NotTargeted"))
	if err := absent(r.alpha, configMaps, r.name, "one")(t.Context()); err != nil {
		t.Error(err)
	}
	label(r.beta, "-")
	r.eventuallyGone(t, configMaps, "one", r.beta)
	if _, err := get(t.Context(), r.gamma, configMaps, r.name, "one"); err != nil {
		t.Error(err)
	}
}

// Copies are wanted where the name and the version, or the region and the provider say so. A cluster that does not say what a rule asks for keeps its copies.
func TestTargetsByWhatAClusterIs(t *testing.T) {
	r := newRoom(t)
	targets := func(text string) string {
		return ofConfigMaps + "targets: " + text + ", ruleDeletionPolicy: Delete, rules: [{" + forLabel("all") + "}]"
	}
	put(t, r.gamma, configMaps, r.object(configMaps, "one", "all", "1"))
	r.rule(t, r.alpha, "named", targets(`{names: [beta, delta], version: ">=1.20"}`))
	r.eventuallyCopied(t, configMaps, "one", "1", r.beta)
	eventually(t, "the rule in alpha says that it is no target", afterFault, r.ruleSays(r.alpha, "named", "True", "NotTargeted"))
	if err := absent(r.alpha, configMaps, r.name, "one")(t.Context()); err != nil {
		t.Error(err)
	}
	kubectl(t, r.alpha, "patch", "resourcesyncrule", r.name+"-named", "--type=merge", "-p", `{"spec":{"targets":{"names":null,"regions":["mars"]}}}`)
	eventually(t, "beta, which has no nodes, does not know its region", afterFault, r.ruleSays(r.beta, "named", "False", "TargetUnknown: spec.targets: region in (mars), version >=1.20: its Cluster object has no region yet"))
	if _, err := get(t.Context(), r.beta, configMaps, r.name, "one"); err != nil {
		t.Error(err)
	}
	kubectl(t, r.alpha, "patch", "resourcesyncrule", r.name+"-named", "--type=merge", "-p", `{"spec":{"targets":{"regions":null,"version":"<1.20"}}}`)
	r.eventuallyGone(t, configMaps, "one", r.beta)

	// Then two clusters have a Node each, and tell where that is.
	for c, where := range map[*harness.Cluster][]string{r.alpha: {"gce://roster/us-east1/x", "us-east1", "us-east1-b"}, r.beta: {"aws:///eu-central-1a/i-x", "eu-central-1", "eu-central-1a"}} {
		if err := c.AddNode(t.Context(), "placed", where[0], where[1], where[2], nil); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { kubectl(t, c, "delete", "node", "placed") })
	}
	r.rule(t, r.alpha, "placed", targets(`{regions: [eu-central-1, eu-west-3], providers: [amazon]}`))
	r.eventuallyCopied(t, configMaps, "one", "1", r.beta)
	eventually(t, "the rule in alpha says that it is no target", afterFault, r.ruleSays(r.alpha, "placed", "True", "NotTargeted"))
	if err := absent(r.alpha, configMaps, r.name, "one")(t.Context()); err != nil {
		t.Error(err)
	}
	eventually(t, "rules explain says where, and why not", within, r.asks(0, []string{"rules", "explain", r.name + "-placed", "--context", "gamma", "--fleet"}, "in cluster beta: synced", "to   beta: yes",
		"to   alpha (this cluster): no: spec.targets: region in (eu-central-1,eu-west-3), provider in (amazon): its Cluster object has region us-east1, provider google"))
}

// A rule that only looks tells what is missing, differs and would be deleted, and writes nothing; then it is let write. A
// copy that it holds stays, whatever becomes of its source.
func TestObserve(t *testing.T) {
	r := newRoom(t)
	name := r.name + "-look"
	mode := func(text string) {
		t.Helper()
		kubectl(t, r.alpha, "patch", "resourcesyncrule", name, "--type=merge", "-p", `{"spec":{"mode":`+text+`}}`)
	}
	counts := func(c *harness.Cluster, want string) func(context.Context) error {
		return func(context.Context) error {
			path := `-o=jsonpath={.status.matched} {.status.synced} {.status.drifted} {.status.conditions[?(@.type=="Drifted")].reason}`
			if got := kubectl(t, c, "get", "resourcesyncrule", name, path); got != want {
				return fmt.Errorf("%s says %q, want %q", c.Name, got, want)
			}
			return nil
		}
	}
	put(t, r.gamma, configMaps, r.object(configMaps, "one", "all", "1"))
	put(t, r.gamma, configMaps, r.object(configMaps, "two", "all", "1"))
	put(t, r.beta, configMaps, r.object(configMaps, "two", "all", "1")) // by hand
	r.rule(t, r.alpha, "look", ofConfigMaps+"mode: Observe, rules: [{"+forLabel("all")+"}]")
	eventually(t, "beta says that one is missing", afterFault, counts(r.beta, "2 1 1 Missing"))
	eventually(t, "and that it looks", within, r.ruleSays(r.beta, "look", "True", "Observing"))
	if err := absent(r.beta, configMaps, r.name, "one")(t.Context()); err != nil {
		t.Error(err)
	}

	mode("null")
	r.eventuallyCopied(t, configMaps, "one", "1", r.beta)
	eventually(t, "beta writes", afterFault, r.ruleSays(r.beta, "look", "True", "Synced"))
	mode(`"Observe"`)
	eventually(t, "beta looks again", afterFault, r.ruleSays(r.beta, "look", "True", "Observing"))
	r.patch(t, r.gamma, configMaps, "one", `{"data":{"v":"2"}}`)
	eventually(t, "beta says that the copy differs", afterFault, counts(r.beta, "2 1 1 Differs"))
	r.drop(t, r.gamma, configMaps, "one")
	eventually(t, "beta says that the copy is extra", afterFault, counts(r.beta, "1 1 1 Extra"))
	if out, err := r.Agentctl(t.Context(), "rules", "explain", name, "--context", "beta"); err != nil || !strings.Contains(out, "only observes: the object would be deleted") {
		t.Errorf("rules explain: %v\n%s", err, out)
	}
	if err := copied(r.beta, r.gamma, configMaps, r.name, "one", "1")(t.Context()); err != nil {
		t.Errorf("the copy that is held: %v", err)
	}
	mode(`"Sync"`)
	r.eventuallyGone(t, configMaps, "one", r.beta)
}

// An object that is there becomes the copy when its annotation names the rule; it is never deleted.
func TestAdopt(t *testing.T) {
	r := newRoom(t)
	name := r.name + "-take"
	put(t, r.gamma, configMaps, r.object(configMaps, "one", "all", "1"))
	put(t, r.gamma, configMaps, r.object(configMaps, "two", "all", "1"))
	mine := r.object(configMaps, "one", "none", "mine")
	put(t, r.beta, configMaps, mine)
	r.rule(t, r.alpha, "take", ofConfigMaps+"conflictPolicy: Adopt, ruleDeletionPolicy: Delete, rules: [{"+forLabel("all")+"}]")
	r.eventuallyCopied(t, configMaps, "two", "1", r.beta)
	eventually(t, "the rule says how to consent", afterFault, r.ruleSays(r.beta, "take", "False", "annotate it here with "+v1alpha1.AnnotationAdopt+"="+name))
	if out, err := r.Agentctl(t.Context(), "rules", "explain", "cm", "one", "-n", r.name, "--context", "beta"); err == nil || !strings.Contains(out, "does not adopt it: to consent") {
		t.Errorf("rules explain: %v\n%s", err, out)
	}
	if obj, err := get(t.Context(), r.beta, configMaps, r.name, "one"); err != nil || obj.GetLabels()["for"] != "none" {
		t.Errorf("the object that was there: %v, %v", err, obj)
	}

	if out, err := r.Agentctl(t.Context(), "rules", "adopt", name, "cm/one", "-n", r.name, "--context", "beta"); err != nil || !strings.Contains(out, "has the consent to rule "+name) {
		t.Errorf("rules adopt: %v\n%s", err, out)
	}
	r.eventuallyCopied(t, configMaps, "one", "1", r.beta)
	eventually(t, "the rule is Ready", within, r.ruleSays(r.beta, "take", "True", "Synced"))
	r.patch(t, r.gamma, configMaps, "one", `{"data":{"v":"2"}}`)
	r.eventuallyCopied(t, configMaps, "one", "2", r.beta)

	r.drop(t, r.gamma, configMaps, "one")
	r.drop(t, r.gamma, configMaps, "two")
	r.eventuallyGone(t, configMaps, "two", r.beta)
	r.eventuallyOrphan(t, configMaps, "one", "2", r.beta)
}

// The agent keeps the labels of --cluster-labels on its own Cluster object and leaves those of others; a label that is put
// on the object of another cluster is removed, and makes that one no target.
func TestClusterLabels(t *testing.T) {
	r := newRoom(t)
	restart := func(flags ...string) {
		t.Helper()
		if err := errors.Join(r.beta.KillAgent(), r.beta.StartAgent(lasting(t), flags...)); err != nil {
			t.Fatal(err)
		}
	}
	labels := func(what string, c, at *harness.Cluster, want map[string]string) {
		t.Helper()
		eventually(t, what, afterFault, func(ctx context.Context) error {
			u, err := get(ctx, at, harness.Clusters(), "", c.Name)
			if err != nil {
				return err
			}
			for key, value := range want {
				if got := u.GetLabels()[key]; got != value {
					return fmt.Errorf("in %s, the label %s of %s is %q, not %q", at.Name, key, c.Name, got, value)
				}
			}
			return nil
		})
	}
	t.Cleanup(func() {
		restart()
		kubectl(t, r.beta, "label", "cluster", "beta", "tier-", "team-")
	})
	kubectl(t, r.beta, "label", "cluster", "beta", "team=shop")
	restart("--cluster-labels", "tier=edge")
	r.rule(t, r.alpha, "edge", ofConfigMaps+"targets: {matchLabels: {tier: edge, team: shop}}, rules: [{"+forLabel("all")+"}]")
	put(t, r.gamma, configMaps, r.object(configMaps, "one", "all", "1"))
	r.eventuallyCopied(t, configMaps, "one", "1", r.beta)
	both := map[string]string{"tier": "edge", "team": "shop"}
	labels("alpha shows the labels", r.beta, r.alpha, both)
	kubectl(t, r.beta, "label", "--overwrite", "cluster", "beta", "tier=core")
	labels("the agent sets its label again", r.beta, r.beta, both)
	kubectl(t, r.alpha, "label", "--overwrite", "cluster", "beta", "tier=core")
	labels("a changed label of a copy is repaired", r.beta, r.alpha, both)
	kubectl(t, r.beta, "label", "cluster", "gamma", "tier=edge")
	labels("a label that is put on a copy is removed", r.gamma, r.beta, map[string]string{"tier": ""})
	restart()
	labels("what is no longer named stays", r.beta, r.beta, both)
}

// Copies whose sources went while nobody looked stay until the command in the condition is run, which the page has, too, and that counts once.
func TestDeletionGuard(t *testing.T) {
	r := newRoom(t)
	r.rule(t, r.alpha, "guarded", ofConfigMaps+"rules: [{"+forLabel("all")+"}]")
	const few = 5
	name := func(i int) string { return fmt.Sprintf("x%d", i) }
	lose := func() {
		for i := range few {
			put(t, r.gamma, configMaps, r.object(configMaps, name(i), "all", "1"))
		}
		for i := range few {
			r.eventuallyCopied(t, configMaps, name(i), "1", r.beta)
		}
		eventually(t, "all is well", afterFault, r.ruleSays(r.beta, "guarded", "True", "Synced"))
		without(t, r.beta, func() {
			for i := range few {
				r.drop(t, r.gamma, configMaps, name(i))
			}
		})
		eventually(t, "the guard stops the rule", afterFault, r.ruleSays(r.beta, "guarded", "False", "DeletionGuard: 5 of 5 copies"))
	}
	// said runs what the condition says, word by word.
	said := func(count string) {
		u, err := get(t.Context(), r.beta, harness.Rules(), "", r.name+"-guarded")
		if err != nil {
			t.Fatal(err)
		}
		message, _ := harness.Condition(u, "Ready")["message"].(string)
		_, command, _ := strings.Cut(message, "agentctl ")
		command, _, _ = strings.Cut(command, " (")
		if !strings.HasSuffix(command, "="+count) {
			t.Fatalf("the condition says %q", message)
		}
		r.expect(t, 0, append(strings.Fields(command), "--context", r.beta.Name, "--dry-run"), count+" deletions of rule "+r.name+"-guarded would be confirmed")
		r.expect(t, 0, append(strings.Fields(command), "--context", r.beta.Name), "the rule goes on")
		for i := range few {
			r.eventuallyGone(t, configMaps, name(i), r.beta)
		}
		eventually(t, "the status remembers it", afterFault, func(ctx context.Context) error {
			u, err := get(ctx, r.beta, harness.Rules(), "", r.name+"-guarded")
			if err != nil {
				return err
			}
			if n, _, _ := unstructured.NestedInt64(u.Object, "status", "confirmedDeletions"); fmt.Sprint(n) != count {
				return fmt.Errorf("status %v", u.Object["status"])
			}
			return nil
		})
	}
	lose()
	eventually(t, "the page has the command", within, r.openPage(t, "--context", r.beta.Name).shows(0, nil, "agentctl guard confirm "+r.name+"-guarded --deletions=5 --context beta"))
	r.expect(t, 5, []string{"rules", "explain", r.name + "-guarded", "--context", r.beta.Name},
		"from "+r.gamma.Name+": held", "the deletion guard waits", "0 whose source is gone, 5 blocked")
	said("5")
	lose()
	maps, err := r.beta.Dynamic.Resource(configMaps).Namespace(r.name).List(t.Context(), metav1.ListOptions{LabelSelector: "for=all"})
	if err != nil || len(maps.Items) != few {
		t.Errorf("%d copies are left of a later batch: %v", len(maps.Items), err)
	}
	said("6")
}
