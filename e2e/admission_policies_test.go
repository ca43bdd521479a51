// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/e2e/harness"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules/consent"
)

// asAgent is the identity that the policies make an exception for.
const asAgent = "--as=system:serviceaccount:" + harness.Namespace + ":" + harness.ServiceAccount

// refused is a condition: the API server refuses the manifest and says so. Nothing is written in any case.
func refused(c *harness.Cluster, manifest string, says ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		out, err := c.Apply(ctx, manifest, "--dry-run=server", "--warnings-as-errors")
		if err == nil {
			return fmt.Errorf("it passes: %s", out)
		}
		for _, want := range says {
			if !strings.Contains(err.Error(), want) {
				return fmt.Errorf("it is refused with %w, which does not say %q", err, want)
			}
		}
		return nil
	}
}

// passes is a condition: the API server takes the manifest without a word.
func passes(c *harness.Cluster, manifest string, flags ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := c.Apply(ctx, manifest, append([]string{"--dry-run=server", "--warnings-as-errors"}, flags...)...)
		return err
	}
}

// A second Cluster object with a clusterID that there is already is refused, and nothing else is.
func TestAdmissionOneClusterObject(t *testing.T) {
	c := apart(t).delta
	first, second := cluster("first", newID(1), "", ""), cluster("second", newID(1), "", "")
	apply(t, c, first)
	t.Cleanup(func() { kubectl(t, c, "delete", "cluster", "first", "second", "third", "--ignore-not-found") })
	eventually(t, "a second object is refused", within, refused(c, second,
		"Cluster first has this clusterID already: a cluster has one Cluster object. Keep that one, or delete it before you create second"))

	if _, err := c.Apply(t.Context(), second); err == nil {
		t.Error("a second object was created")
	}
	for what, check := range map[string]func(context.Context) error{
		"the same object again":       passes(c, first),
		"the same, server-side":       passes(c, first, "--server-side", "--force-conflicts"),
		"another clusterID":           passes(c, cluster("third", newID(2), "", "")),
		"a copy that the agent makes": passes(c, second, asAgent),
	} {
		if err := check(t.Context()); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	// A name that is taken is said to be taken, not that its clusterID is.
	if out, err := c.Kubectl(t.Context(), "create", "--dry-run=server", "-f", write(t, "first.yaml", first)); err == nil || !strings.Contains(err.Error(), "already exists") {
		t.Errorf("create of the object that is there: %v %s", err, out)
	}
	kubectl(t, c, "label", "cluster", "first", "region=eu")
	kubectl(t, c, "annotate", "cluster", "first", "cluster-registry.k8s.cisco.com/cluster-disabled=")
	kubectl(t, c, "replace", "--force", "-f", write(t, "first.yaml", first))

	apply(t, c, cluster("third", newID(2), "", ""))
	eventually(t, "each object counts", within, refused(c, cluster("fourth", newID(2), "", ""), "Cluster third has this clusterID"))

	// An object without a clusterID claims none, however many there are, and is judged when it is given one.
	listed := func(name string) string {
		return strings.ReplaceAll(cluster(name, "", "", ""), "  clusterID: \n", "  {}\n")
	}
	apply(t, c, listed("second"))
	if err := passes(c, listed("fifth"))(t.Context()); err != nil {
		t.Error("a second object without a clusterID:", err)
	}
	eventually(t, "it does not hide the others", within, refused(c, cluster("fourth", newID(1), "", ""), "Cluster first has this clusterID"))
	eventually(t, "a clusterID that is taken is not given", within, refused(c, second,
		"Cluster first has this clusterID already: a cluster has one Cluster object. Keep that one, or delete it before you give it to second"))
	for what, check := range map[string]func(context.Context) error{
		"another clusterID": passes(c, cluster("second", newID(3), "", "")),
		"by the agent":      passes(c, second, asAgent),
		"a label": func(ctx context.Context) error {
			_, err := c.Kubectl(ctx, "label", "cluster", "second", "region=eu")
			return err
		},
	} {
		if err := check(t.Context()); err != nil {
			t.Errorf("%s for one that had none: %v", what, err)
		}
	}
	kubectl(t, c, "delete", "cluster", "second")
	kubectl(t, c, "delete", "cluster", "first")
	eventually(t, "the clusterID is free again", within, passes(c, second))
}

// Who may only create Clusters cannot make a second one by giving it the label of a copy; agents, whatever their account, and administrators may.
func TestAdmissionOwnerLabel(t *testing.T) {
	c := apart(t).delta
	kubectl(t, c, "create", "clusterrole", "creator", "--verb=get,create,update,patch", "--resource=clusters.clusterregistry.k8s.cisco.com")
	kubectl(t, c, "create", "clusterrole", "otheragent", "--verb=patch", "--resource=clusters.clusterregistry.k8s.cisco.com/status")
	for user, role := range map[string]string{"author": "creator", "agent": "creator", "agent2": "otheragent"} {
		kubectl(t, c, "create", "clusterrolebinding", "label-"+user, "--clusterrole="+role, "--user="+strings.TrimSuffix(user, "2"))
	}
	t.Cleanup(func() {
		kubectl(t, c, "delete", "clusterrole", "creator", "otheragent")
		kubectl(t, c, "delete", "clusterrolebinding", "label-author", "label-agent", "label-agent2")
		kubectl(t, c, "delete", "cluster", "first", "second", "--ignore-not-found")
	})
	first, plain := cluster("first", newID(1), "", ""), cluster("second", newID(2), "", "")
	apply(t, c, first)
	marked := func(id, label string) string {
		return strings.Replace(cluster("second", id, "", ""), "  name: second\n", "  name: second\n  labels: {"+v1alpha1.LabelOwnerClusterID+": \""+label+"\"}\n", 1)
	}
	says := "marks copies that the agent makes: leave it out"
	for what, manifest := range map[string]string{"of a clusterID that there is": marked(newID(1), newID(1)), "an empty one": marked(newID(1), ""), "of another": marked(newID(2), newID(1))} {
		eventually(t, "the label is refused: "+what, within, func(ctx context.Context) error {
			_, err := c.Apply(ctx, manifest, "--dry-run=server", "--as=author")
			if err == nil || !strings.Contains(err.Error(), says) {
				return fmt.Errorf("it is refused with %v, which does not say %q", err, says) //nolint:errorlint // it may pass
			}
			return nil
		})
	}
	apply(t, c, plain, "--as=author")
	if _, err := c.Apply(t.Context(), marked(newID(2), newID(2)), "--as=author"); err == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("the label is set on an object that is there: %v", err)
	}
	for what, flag := range map[string]string{"an agent": "--as=agent", "an administrator": "--warnings-as-errors"} {
		if err := passes(c, marked(newID(2), newID(2)), flag)(t.Context()); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	apply(t, c, marked(newID(2), newID(2)))
	kubectl(t, c, "label", "cluster", "second", "region=eu", "--as=author") // one that has it may be changed
	kubectl(t, c, "delete", "cluster", "second")
	apply(t, c, strings.Replace(marked("", newID(1)), "spec:\n  clusterID: \n", "spec: {}\n", 1))
	if _, err := c.Apply(t.Context(), marked(newID(1), newID(1)), "--as=author"); err == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("a clusterID is set on an object with the label: %v", err)
	}
}

// Who makes a rule about a kind that this cluster does not consent to is warned, with the value that would change that.
func TestAdmissionConsent(t *testing.T) {
	c := apart(t).delta
	t.Cleanup(func() { kubectl(t, c, "delete", "rsr", "powerful", "--ignore-not-found") })
	const all = "rules: [{match: [{namespaces: [shop]}]}]"
	role := ruleOf("powerful", "groupVersionKind: {group: rbac.authorization.k8s.io, version: v1, kind: Role}, "+all)
	eventually(t, "a rule about Roles draws a warning", within, refused(c, role,
		`this cluster writes no copies of Role.rbac.authorization.k8s.io, which gives power over the cluster; to allow it here add "Role.rbac.authorization.k8s.io" to the chart value consent.allow.kinds`))

	t.Run("as the agent judges", func(t *testing.T) {
		for _, kind := range []schema.GroupVersionKind{
			{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRoleBinding"},
			{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingAdmissionPolicy"},
			{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"},
			{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"},
			{Group: "certificates.k8s.io", Version: "v1", Kind: "CertificateSigningRequest"},
			{Version: "v1", Kind: "Node"},
			{Group: "metal.example.com", Version: "v1", Kind: "Node"},
			{Version: "v1", Kind: "Secret"},
			{Group: "apps", Version: "v1", Kind: "Deployment"},
			{Group: "authorization.k8s.io", Version: "v1", Kind: "SubjectAccessReview"},
		} {
			gvk := fmt.Sprintf("{group: %q, version: %s, kind: %s}", kind.Group, kind.Version, kind.Kind)
			manifest := ruleOf("powerful", "groupVersionKind: "+gvk+", "+all)
			check := passes(c, manifest)
			if err := (consent.Policy{}).RefuseKind(kind); err != nil {
				check = refused(c, manifest, fmt.Sprintf("%q", kind.GroupKind().String()))
			}
			if err := check(t.Context()); err != nil {
				t.Errorf("%s: %v", kind.GroupKind(), err)
			}
		}
	})
	t.Run("parts of a kind", func(t *testing.T) {
		away := "groupVersionKind: {group: rbac.authorization.k8s.io, version: v1, kind: Role}, rules: [{mutations: {groupVersionKind: {group: example.com}}}]"
		if err := passes(c, ruleOf("powerful", away))(t.Context()); err != nil {
			t.Errorf("Roles that become another kind: %v", err)
		}
		into := ofConfigMaps + "rules: [{}, {mutations: {groupVersionKind: {kind: Node}}}]"
		if err := refused(c, ruleOf("powerful", into), `"Node"`)(t.Context()); err != nil {
			t.Errorf("ConfigMaps that become Nodes: %v", err)
		}
		shown := "groupVersionKind: {version: v1, kind: Secret}, rules: [{}, {mutations: {groupVersionKind: {kind: ConfigMap}}}]"
		if err := refused(c, ruleOf("powerful", shown), `"ConfigMap"`)(t.Context()); err != nil {
			t.Errorf("Secrets that become ConfigMaps: %v", err)
		}
	})

	apply(t, c, role) // it is made all the same
	if _, err := c.Kubectl(t.Context(), "annotate", "rsr", "powerful", "cluster-registry.k8s.cisco.com/confirm-deletions=1", "--warnings-as-errors"); err != nil {
		t.Errorf("an annotation draws a warning: %v", err)
	}
	if err := passes(c, ruleOf("imported", "groupVersionKind: {version: v1, kind: Node}, rules: [{}]"), asAgent)(t.Context()); err != nil {
		t.Errorf("a copy that the agent makes: %v", err)
	}
	if err := passes(c, ruleOf("powerful", "groupVersionKind: {group: rbac.authorization.k8s.io, version: v1, kind: Role}"))(t.Context()); err != nil {
		t.Errorf("a rule that selects nothing: %v", err)
	}

	t.Run("with consent", func(t *testing.T) {
		t.Cleanup(func() { apply(t, c, policies(t)) })
		apply(t, c, policies(t, "--set", "consent.allow.kinds={Node,Role.rbac.authorization.k8s.io,certificates.k8s.io}"))
		eventually(t, "Roles draw no warning", within, passes(c, strings.ReplaceAll(role, "powerful", "allowed")))
		for gvk, allowed := range map[string]bool{
			"{version: v1, kind: Node}": true,
			"{group: certificates.k8s.io, version: v1, kind: CertificateSigningRequest}": true,
			"{group: rbac.authorization.k8s.io, version: v1, kind: ClusterRole}":         false,
		} {
			manifest := ruleOf("allowed", "groupVersionKind: "+gvk+", rules: [{}]")
			if err := passes(c, manifest)(t.Context()); (err == nil) != allowed {
				t.Errorf("%s: %v", gvk, err)
			}
		}
	})
}

// TestAdmissionFallsBack: no policies where the API server has none, or where nobody wants them.
func TestAdmissionFallsBack(t *testing.T) {
	const live = "v1/Namespace"
	for name, c := range map[string]struct {
		flags []string
		want  int
	}{
		"no API server to ask":       {nil, 3},
		"an API server with them":    {[]string{"--api-versions", live, "--api-versions", "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy"}, 3},
		"an API server without":      {[]string{"--api-versions", live}, 0},
		"admission.enabled is false": {[]string{"--set", "admission.enabled=false"}, 0},
		"no consent.allow.kinds":     {[]string{"--set", "consent.allow.kinds=null"}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			if got := strings.Count(policies(t, c.flags...), "kind: ValidatingAdmissionPolicy\n"); got != c.want {
				t.Errorf("%d policies, not %d", got, c.want)
			}
		})
	}
}

// policies is what the chart renders from its admission.yaml.
func policies(t *testing.T, flags ...string) string {
	t.Helper()
	bin, err := harness.FindBinaries()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(lasting(t), bin.Helm, append([]string{"template", bin.Chart, "-n", harness.Namespace}, flags...)...)
	out, err := cmd.Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			t.Fatalf("helm template: %v: %s", err, exit.Stderr)
		}
		t.Fatal(err)
	}
	var kept []string
	for document := range strings.SplitSeq(string(out), "\n---\n") {
		if strings.Contains(document, "/admission.yaml\n") {
			kept = append(kept, document)
		}
	}
	return strings.Join(kept, "\n---\n")
}

func ruleOf(name, spec string) string {
	return "apiVersion: clusterregistry.k8s.cisco.com/v1alpha1\nkind: ResourceSyncRule\nmetadata: {name: " + name + "}\nspec: {" + spec + "}\n"
}
