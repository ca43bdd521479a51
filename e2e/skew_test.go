// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/agent/payload"
	"github.com/roster-mesh/roster/e2e/harness"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/replica"
	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/skew"
)

// strangers are two clusters which end with the test, each a group of its own.
func strangers(t *testing.T) *group {
	t.Helper()
	bin, err := harness.FindBinaries()
	if err != nil {
		t.Fatal(err)
	}
	g := &group{Fleet: ofTheirOwn(t, bin, "alpha", "beta")}
	g.alpha, g.beta = g.Clusters[0], g.Clusters[1]
	return g
}

// pair is a group of two clusters, which end with the test.
func pair(t *testing.T) *group {
	t.Helper()
	g := strangers(t)
	t.Log(agentctl(t, g, "join", "--context", "alpha", "--peer-context", "beta"))
	return g
}

// TestRuleOfANewerMember: a member edits a rule to have a field that no agent here knows. The rule says so, its copies stay
// as they are, whatever becomes of their source, and doctor names the clusters. Without the field, the rule goes on.
func TestRuleOfANewerMember(t *testing.T) {
	g := pair(t)
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	id := newID(9)
	apply(t, g.alpha, cluster("newer", id, "", "")+"  mesh: {endpoints: [\"127.0.0.1:1\"], publicKey: "+base64.StdEncoding.EncodeToString(public)+"}\n")
	newer := signer(t, id, private)
	publish := func(spec string) {
		t.Helper()
		messages, err := newer.Publish(payload.RuleKey("newest"), replica.Live, []byte(spec))
		if err != nil {
			t.Fatal(err)
		}
		say(t, g.alpha, private, messages...)
	}
	const known = `{"spec":{"groupVersionKind":{"version":"v1","kind":"Secret"},"rules":[{"match":[{"name":"newest","namespace":"` + harness.Namespace + `"}]}]}}`
	eventually(t, "alpha takes messages of the member", within, hasCluster(g.alpha, "newer"))
	publish(known)
	putSecret(t, g.beta, "newest", "one")
	eventually(t, "the rule copies", within, hasCopy(g.alpha, g.beta, "newest", "one"))

	publish(strings.Replace(known, `"rules"`, `"future":{"a":1},"rules"`, 1))
	eventually(t, "the rule says what is not understood", within, ruleIs(g.alpha, "newest", "False", skew.Reason+": not understood: the agent here does not know spec.future"))
	putSecret(t, g.beta, "newest", "two")
	deleteSecret(t, g.beta, "newest")
	stays(t, "the copy stays as it is", quiet, hasCopy(g.alpha, g.beta, "newest", "one"))
	eventually(t, "doctor names the cluster", within, func(ctx context.Context) error {
		if out, err := g.Agentctl(ctx, "doctor", "--context", "alpha"); !strings.Contains(out, "rule newest is not Ready") || !strings.Contains(out, skew.Reason) {
			return fmt.Errorf("doctor: %w\n%s", err, out)
		}
		return nil
	})
	if out, err := g.Agentctl(t.Context(), "rules", "explain", "newest", "--context", "alpha"); !strings.Contains(out, "does not know spec.future") {
		t.Errorf("rules explain: %v\n%s", err, out)
	}
	if err := g.alpha.RestartAgent(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "also after a restart", within, ruleIs(g.alpha, "newest", "False", skew.Reason))
	stays(t, "the copy stays as it is", quiet, hasCopy(g.alpha, g.beta, "newest", "one"))

	putSecret(t, g.beta, "newest", "three")
	publish(known)
	eventually(t, "the rule is understood again", afterFault, hasCopy(g.alpha, g.beta, "newest", "three"))
}

// TestRuleBesideANewerCRD: a person uses a field of a CRD that is newer than the agent. Neither this agent nor the others
// take the rule for one without that field.
func TestRuleBesideANewerCRD(t *testing.T) {
	g := pair(t)
	apply(t, g.beta, rule("ahead", "ahead"))
	putSecret(t, g.alpha, "ahead", "one")
	eventually(t, "the rule copies", within, hasCopy(g.beta, g.alpha, "ahead", "one"))
	eventually(t, "alpha has the rule", within, hasRule(g.alpha, "ahead"))

	kubectl(t, g.beta, "patch", "crd", "resourcesyncrules."+v1alpha1.SchemeGroupVersion.Group, "--type=json", "-p",
		`[{"op":"add","path":"/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/future","value":{"type":"string"}}]`)
	for _, name := range []string{"ahead", "anew"} {
		eventually(t, "the rule has the field", within, func(ctx context.Context) error {
			_, err := g.beta.Apply(ctx, strings.Replace(rule(name, name), "spec:\n", "spec:\n  future: x\n", 1))
			if err == nil {
				err = ruleHas(g.beta, name, "future")(ctx)
			}
			return err
		})
		eventually(t, "it says so", within, ruleIs(g.beta, name, "False", "the agent here does not know spec.future"))
	}
	putSecret(t, g.alpha, "anew", "one")
	putSecret(t, g.alpha, "ahead", "two")
	stays(t, "nothing is copied", quiet, func(ctx context.Context) error {
		return errors.Join(hasCopy(g.beta, g.alpha, "ahead", "one")(ctx), noSecret(g.beta, "anew")(ctx), noRule(g.alpha, "anew")(ctx), hasRule(g.alpha, "ahead")(ctx))
	})
	kubectl(t, g.beta, "patch", "resourcesyncrule", "ahead", "--type=json", "-p", `[{"op":"remove","path":"/spec/future"}]`)
	eventually(t, "the rule is understood again", within, hasCopy(g.beta, g.alpha, "ahead", "two"))
}

// envOlder names a checkout of an earlier version, in which bin/agent is built (.ci/e2e-older).
const envOlder = "ROSTER_E2E_OLDER"

// earlier is the tree of an earlier version, whose agent is built.
func earlier(t *testing.T) string {
	t.Helper()
	older := os.Getenv(envOlder)
	if older == "" {
		t.Skip("needs an earlier version, which is built from the history: make e2e-older runs it")
	}
	return older
}

// TestRuleBesideAnOlderAgent: gamma has an agent and CRDs of a version that reads rules leniently (schema 6 and earlier). A rule
// that is edited to have a field which it does not know copies nothing more there and deletes nothing, and doctor names it.
// When gamma is upgraded, it has the whole rule. So it is with each field that came since.
func TestRuleBesideAnOlderAgent(t *testing.T) {
	older := earlier(t)
	bin, err := harness.FindBinaries()
	if err != nil {
		t.Fatal(err)
	}
	g := &group{Fleet: notStarted(t, bin, "alpha", "beta", "gamma")}
	g.alpha, g.beta, g.gamma = g.Clusters[0], g.Clusters[1], g.Clusters[2]
	g.gamma.Runs(filepath.Join(older, "bin", "agent"), filepath.Join(older, "charts", "agent"))
	start(t, g.Clusters...)
	for _, newcomer := range []string{"beta", "gamma"} {
		t.Log(agentctl(t, g, "join", "--context", "alpha", "--peer-context", newcomer))
	}
	g.eventuallyWhole(t, within)

	apply(t, g.alpha, rule("aged", "aged"))
	putSecret(t, g.alpha, "aged", "one")
	aged := way{"aged", g.alpha, g.alpha, []*harness.Cluster{g.beta, g.gamma}}
	aged.arrives(t, "one", aged.to...)

	kubectl(t, g.alpha, "patch", "resourcesyncrule", "aged", "--type=merge", "-p", `{"spec":{"targets":{"names":["beta"]},"ruleDeletionPolicy":"Delete"}}`)
	eventually(t, "the old agent has the rule paused", within, ruleIs(g.gamma, "aged", "False", "Paused"))
	eventually(t, "doctor names it", within, func(ctx context.Context) error {
		if out, err := g.Agentctl(ctx, "doctor", "--context", "alpha"); !strings.Contains(out, "gamma") || !strings.Contains(out, "cannot understand rule aged") {
			return fmt.Errorf("doctor: %w\n%s", err, out)
		}
		return nil
	})
	putSecret(t, g.alpha, "aged", "two")
	aged.arrives(t, "two", g.beta)
	stays(t, "the copy of the old agent stays", quiet, hasCopy(g.gamma, g.alpha, "aged", "one"))
	deleteSecret(t, g.gamma, "aged")
	stays(t, "and is not made again", quiet, noSecret(g.gamma, "aged"))
	putSecret(t, g.alpha, "aged", "three")
	aged.arrives(t, "three", g.beta)

	obeyed := newerFields(t, g)
	upgradeToThis(t, bin, g.gamma)
	eventually(t, "gamma has the whole rule", afterFault, ruleIs(g.gamma, "aged", "True", "NotTargeted"))
	obeyed()
	if err := ruleHas(g.gamma, "aged", "targets")(t.Context()); err != nil {
		t.Error(err)
	}
}

// newerFields has rules with mode, conflictPolicy and targetNamespaces in a group whose gamma does not know them. beta does what
// they say; gamma, where all of them would do something, writes nothing. obeyed looks whether an upgraded gamma does it, too.
func newerFields(t *testing.T, g *group) (obeyed func()) {
	t.Helper()
	const (
		looking   = "looking"
		spreading = "spreading"
		taking    = "taking"
	)
	with := func(name, field string) string {
		return strings.Replace(rule(name, name), "spec:\n", "spec:\n  "+field+"\n", 1)
	}
	labelled := func(c *harness.Cluster) {
		kubectl(t, c, "label", "namespace", harness.Namespace, spreading+"=yes")
	}
	for _, c := range []*harness.Cluster{g.beta, g.gamma} {
		putSecret(t, c, taking, "mine") // and it may be taken over
		kubectl(t, c, "-n", harness.Namespace, "annotate", "secret", taking, v1alpha1.AnnotationAdopt+"="+taking)
		kubectl(t, c, "create", "clusterrole", spreading, "--verb=*", "--resource=secrets")
		kubectl(t, c, "create", "clusterrolebinding", spreading, "--clusterrole="+spreading, "--serviceaccount="+harness.Namespace+":"+harness.ServiceAccount)
	}
	labelled(g.beta) // without the label a copy in gamma comes of a rule that lacks its targetNamespaces
	for _, name := range []string{looking, spreading, taking} {
		putSecret(t, g.alpha, name, "one")
	}
	kubectl(t, g.alpha, "-n", harness.Namespace, "label", "secret", taking, "for="+taking)

	apply(t, g.alpha, with(looking, "mode: Observe"))
	apply(t, g.alpha, with(spreading, `targetNamespaces: {matchLabels: {`+spreading+`: "yes"}}`))
	apply(t, g.alpha, fmt.Sprintf(`apiVersion: clusterregistry.k8s.cisco.com/v1alpha1
kind: ResourceSyncRule
metadata: {name: %[1]s}
spec:
  groupVersionKind: {kind: Secret, version: v1}
  conflictPolicy: Adopt
  rules: [{match: [{namespaces: [%[2]s], labels: [{matchLabels: {for: %[1]s}}]}]}]
`, taking, harness.Namespace))
	for _, name := range []string{looking, spreading, taking} {
		eventually(t, "the old agent has rule "+name+" paused", within, ruleIs(g.gamma, name, "False", "Paused"))
	}
	eventually(t, "the new one looks", within, ruleIs(g.beta, looking, "True", "Observing"))
	eventually(t, "has the copy in the namespace with the label", afterFault, hasCopy(g.beta, g.alpha, spreading, "one"))
	eventually(t, "and takes over what is there", afterFault, hasCopy(g.beta, g.alpha, taking, "one"))
	stays(t, "and the old one writes nothing", quiet, func(ctx context.Context) error {
		return errors.Join(noSecret(g.beta, looking)(ctx), noSecret(g.gamma, looking)(ctx), noSecret(g.gamma, spreading)(ctx), hasOwn(g.gamma, taking, "mine")(ctx))
	})
	return func() {
		t.Helper()
		eventually(t, "gamma looks", afterFault, ruleIs(g.gamma, looking, "True", "Observing"))
		eventually(t, "takes over what is there", afterFault, hasCopy(g.gamma, g.alpha, taking, "one"))
		eventually(t, "copies into no namespace without the label", afterFault, ruleIs(g.gamma, spreading, "True", "Synced"))
		if err := noSecret(g.gamma, spreading)(t.Context()); err != nil {
			t.Error(err)
		}
		labelled(g.gamma)
		eventually(t, "and into the one that gets it", afterFault, hasCopy(g.gamma, g.alpha, spreading, "one"))
	}
}

// hasOwn: a cluster has a Secret with this value that is no copy.
func hasOwn(c *harness.Cluster, name, value string) func(context.Context) error {
	return func(ctx context.Context) error {
		u, err := get(ctx, c, harness.Secrets(), harness.Namespace, name)
		if err != nil {
			return err
		}
		data, _, _ := unstructured.NestedString(u.Object, "data", "v")
		if owner, want := syncrules.Owner(u), base64.StdEncoding.EncodeToString([]byte(value)); owner != "" || data != want {
			return fmt.Errorf("in %s: Secret %s has owner %q and value %s, not %s", c.Name, name, owner, data, want)
		}
		return nil
	}
}

// upgradeToThis has a cluster run the agent of this version, with its CRDs.
func upgradeToThis(t *testing.T, bin harness.Binaries, c *harness.Cluster) {
	t.Helper()
	if err := c.StopAgent(); err != nil {
		t.Fatal(err)
	}
	c.Runs(bin.Agent, bin.Chart)
	crds, err := filepath.Glob(filepath.Join(bin.Chart, "crds", "*.yaml"))
	if err != nil || len(crds) == 0 {
		t.Fatalf("no CRDs: %v", err)
	}
	for _, crd := range crds {
		kubectl(t, c, "apply", "--server-side", "--force-conflicts", "-f", crd)
	}
	if err := c.StartAgent(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// ruleHas: a rule has a field in its spec.
func ruleHas(c *harness.Cluster, name, field string) func(context.Context) error {
	return func(ctx context.Context) error {
		u, err := get(ctx, c, harness.Rules(), "", name)
		if err != nil {
			return err
		}
		if _, found, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", field); !found {
			return fmt.Errorf("rule %s has no spec.%s in %s", name, field, c.Name)
		}
		return nil
	}
}
