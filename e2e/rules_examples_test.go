// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/roster-mesh/roster/e2e/documents"
	"github.com/roster-mesh/roster/e2e/harness"
)

// Where the examples are, from here: what is applied in one cluster, and what in each.
const (
	exampleRulesDir  = "../docs/examples/rules"
	exampleRightsDir = "../docs/examples/rights"
)

// thing is an object in a cluster, and what kubectl prints of it.
type thing struct {
	cluster, namespace, object string // object is KIND/NAME
	path, value                string // a JSON path and its value
}

// example says what becomes of the commands in the comment of an example.
type example struct {
	sources []thing // what the commands create
	arrives []thing // the copies
	not     []thing // what is not copied, although something else is
}

// argoLabel is the label by which Argo CD knows a cluster.
const argoLabel = `{.metadata.labels.argocd\.argoproj\.io/secret-type}`

// examples has each file of docs/examples/rules. The commands say cluster-1, cluster-2 and cluster-3 for alpha, beta and gamma.
var examples = map[string]example{
	"wildcard-tls.yaml": {
		sources: []thing{{"alpha", "gateways", "secret/wildcard-tls", "", ""}},
		arrives: []thing{
			{"beta", "gateways", "secret/wildcard-tls", "{.type}", "kubernetes.io/tls"},
			{"gamma", "gateways", "secret/wildcard-tls", "{.type}", "kubernetes.io/tls"},
		},
	},
	"pull-secrets.yaml": {
		sources: []thing{{"alpha", "team-a", "secret/registry-example", "", ""}, {"alpha", "team-a", "secret/database", "", ""}},
		arrives: []thing{
			{"beta", "team-a", "secret/registry-example", "{.type}", "kubernetes.io/dockerconfigjson"},
			{"gamma", "team-a", "secret/registry-example", "{.type}", "kubernetes.io/dockerconfigjson"},
		},
		not: []thing{{"beta", "team-a", "secret/database", "", ""}, {"beta", "team-b", "secret/registry-example", "", ""}},
	},
	"ca-bundle.yaml": {
		sources: []thing{{"alpha", "company-trust", "configmap/company-ca", "", ""}},
		arrives: []thing{
			{"beta", "company-trust", "configmap/company-ca", `{.data.ca-bundle\.crt}`, "roots\n"},
			{"gamma", "company-trust", "configmap/company-ca", `{.data.ca-bundle\.crt}`, "roots\n"},
		},
	},
	"namespaces-with-ca.yaml": {
		sources: []thing{{"alpha", "company-roots", "configmap/company-roots", "", ""}},
		arrives: []thing{{"beta", "payments", "configmap/company-roots", `{.data.ca-bundle\.crt}`, "roots\n"}},
		not:     []thing{{"beta", "company-roots", "configmap/company-roots", "", ""}, {"beta", "default", "configmap/company-roots", "", ""}},
	},
	"region-override.yaml": {
		sources: []thing{{"alpha", "shop", "configmap/shop-settings", "", ""}},
		arrives: []thing{
			{"beta", "shop", "configmap/shop-settings", "{.data.endpoint} {.data.replicas}", "https://api.example.com 2"},
			{"gamma", "shop", "configmap/shop-settings", "{.data.endpoint} {.data.replicas}", "https://eu-central-1.api.example.com 6"},
			{"alpha", "shop", "configmap/shop-settings", "{.data.endpoint} {.data.replicas}", "https://api.example.com 2"},
		},
	},
	"sync-to-annotation.yaml": {
		sources: []thing{
			{"alpha", "default", "configmap/motd", "", ""},
			{"alpha", "default", "configmap/edge-cache", "", ""},
			{"alpha", "default", "configmap/private", "", ""},
		},
		arrives: []thing{
			{"beta", "default", "configmap/motd", "{.data.text}", "hello"},
			{"gamma", "default", "configmap/motd", "{.data.text}", "hello"},
			{"gamma", "default", "configmap/edge-cache", "{.data.size}", "10Gi"},
		},
		not: []thing{{"beta", "default", "configmap/edge-cache", "", ""}, {"gamma", "default", "configmap/private", "", ""}},
	},
	"istio-remote-secrets.yaml": {
		sources: []thing{
			{"alpha", "istio-system", "secret/istio-remote-secret-alpha", "", ""},
			{"beta", "istio-system", "secret/istio-remote-secret-beta", "", ""},
		},
		arrives: []thing{
			{"alpha", "istio-system", "secret/istio-remote-secret-beta", `{.metadata.labels.istio/multiCluster}`, "true"},
			{"beta", "istio-system", "secret/istio-remote-secret-alpha", `{.metadata.annotations.networking\.istio\.io/cluster}`, "alpha"},
			{"gamma", "istio-system", "secret/istio-remote-secret-alpha", "{.kind}", "Secret"},
			{"gamma", "istio-system", "secret/istio-remote-secret-beta", "{.kind}", "Secret"},
		},
	},
	"adopt-settings.yaml": {
		sources: []thing{{"alpha", "shop-settings", "configmap/shop", "", ""}, {"beta", "shop-settings", "configmap/shop", "", ""}},
		arrives: []thing{
			{"beta", "shop-settings", "configmap/shop", "{.data.currency}", "EUR"},
			{"gamma", "shop-settings", "configmap/shop", "{.data.currency}", "EUR"},
		},
	},
	"argocd-clusters.yaml": {
		sources: []thing{
			{"alpha", "argocd", "secret/cluster-alpha", "", ""},
			{"alpha", "argocd", "secret/cluster-beta", "", ""},
			{"alpha", "argocd", "secret/cluster-gamma", "", ""},
		},
		arrives: []thing{
			{"beta", "argocd", "secret/cluster-alpha", argoLabel, "cluster"},
			{"beta", "argocd", "secret/cluster-beta", argoLabel, "cluster"},
			{"beta", "argocd", "secret/cluster-gamma", argoLabel, "cluster"},
		},
		not: []thing{{"gamma", "argocd", "secret/cluster-alpha", "", ""}},
	},
	"flux-kubeconfigs.yaml": {
		sources: []thing{{"beta", "flux-clusters", "secret/kubeconfig", "", ""}, {"gamma", "flux-clusters", "secret/kubeconfig", "", ""}},
		arrives: []thing{
			{"alpha", "flux-system", "secret/beta-kubeconfig", "{.data.value}", "YmV0YQo="},
			{"alpha", "flux-system", "secret/gamma-kubeconfig", "{.data.value}", "Z2FtbWEK"},
		},
		not: []thing{{"gamma", "flux-system", "secret/beta-kubeconfig", "", ""}, {"alpha", "flux-clusters", "secret/kubeconfig", "", ""}},
	},
}

// TestRuleExamples does what docs/examples says, in three clusters: all files are applied, then the commands in the comment
// of each are typed.
func TestRuleExamples(t *testing.T) {
	g := joined(t)
	listed := slices.Sorted(maps.Keys(examples))
	for _, dir := range []string{exampleRulesDir, exampleRightsDir} {
		if names := fileNames(t, dir); !slices.Equal(names, listed) {
			t.Fatalf("%s has %q, and this test %q", dir, names, listed)
		}
	}
	rules := exampleRules(t, listed)
	t.Cleanup(func() { g.clearExamples(t, rules) })
	docs := documents.NewReader("..")
	g.playExampleReadme(t, docs, listed)
	g.expect(t, 0, []string{"rules", "lint", exampleRulesDir}, fmt.Sprintf("%d rules without errors", len(rules)), "0 errors, 0 warnings")
	for _, c := range g.Clusters[:3] {
		kubectl(t, c, "apply", "-f", exampleRightsDir)
	}
	kubectl(t, g.alpha, "apply", "-f", exampleRulesDir)
	dir := exampleInputs(t, g)
	t.Run("region-override.yaml", func(t *testing.T) {
		if err := g.gamma.AddNode(t.Context(), "example", "", "eu-central-1", "eu-central-1a", nil); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { kubectl(t, g.gamma, "delete", "node", "example") })
		g.playExample(t, dir, "region-override.yaml", rules)
	})
	for _, name := range listed {
		if name != "region-override.yaml" {
			t.Run(name, func(t *testing.T) { g.playExample(t, dir, name, rules) })
		}
	}
	if err := docs.Untyped("e2e.TestRuleExamples"); err != nil {
		t.Error(err)
	}
}

// playExampleReadme types the commands of the folder's README.md, which lists all examples.
func (g *group) playExampleReadme(t *testing.T, docs *documents.Reader, listed []string) {
	t.Helper()
	readme, err := os.ReadFile("../" + documents.Examples)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range listed {
		if !strings.Contains(string(readme), "](rules/"+name+")") {
			t.Errorf("docs/examples/README.md does not list %s", name)
		}
	}
	commands, err := docs.Lines(documents.Examples, "agentctl rules lint", "kubectl --context cluster-1 apply -f docs/examples/rights",
		"kubectl --context cluster-2 apply", "kubectl --context cluster-1 apply -f docs/examples/rules")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := g.Shell(t.Context(), "..", toNames(commands)); err != nil || !strings.Contains(out, "0 errors, 0 warnings") {
		t.Fatalf("%v\n%s", err, out)
	}
}

func (g *group) playExample(t *testing.T, dir, name string, rules []string) {
	e := examples[name]
	t.Cleanup(func() {
		for _, s := range e.sources {
			kubectl(t, g.Find(s.cluster), "-n", s.namespace, "delete", s.object, "--ignore-not-found")
		}
	})
	commands := exampleCommands(t, filepath.Join(exampleRulesDir, name))
	if out, err := g.Shell(t.Context(), dir, commands); err != nil {
		t.Fatalf("%s\n%v\n%s", commands, err, out)
	}
	for _, want := range e.arrives {
		eventually(t, fmt.Sprintf("%s/%s in %s", want.namespace, want.object, want.cluster), afterFault, g.shows(want))
	}
	for _, c := range g.Clusters[:3] {
		eventually(t, "the rules are Ready in "+c.Name, afterFault, func(ctx context.Context) error { return rulesReady(ctx, c, rules) })
	}
	for _, unwanted := range e.not {
		if err := g.lacks(unwanted)(t.Context()); err != nil {
			t.Error(err)
		}
	}
	for _, s := range e.sources {
		kubectl(t, g.Find(s.cluster), "-n", s.namespace, "delete", s.object)
	}
	for _, copied := range e.arrives {
		eventually(t, fmt.Sprintf("without its source no %s/%s in %s", copied.namespace, copied.object, copied.cluster), within, g.lacks(copied))
	}
}

// shows and lacks are conditions.
func (g *group) shows(want thing) func(context.Context) error {
	return func(ctx context.Context) error {
		out, err := g.Find(want.cluster).Kubectl(ctx, "-n", want.namespace, "get", want.object, "-o", "jsonpath="+want.path)
		if err == nil && out != want.value {
			err = fmt.Errorf("%s of %s/%s in %s is %q, not %q", want.path, want.namespace, want.object, want.cluster, out, want.value)
		}
		return err
	}
}

func (g *group) lacks(unwanted thing) func(context.Context) error {
	return func(ctx context.Context) error {
		out, err := g.Find(unwanted.cluster).Kubectl(ctx, "-n", unwanted.namespace, "get", unwanted.object, "-o", "name", "--ignore-not-found")
		if err == nil && out != "" {
			err = fmt.Errorf("%s has %s/%s", unwanted.cluster, unwanted.namespace, unwanted.object)
		}
		return err
	}
}

func rulesReady(ctx context.Context, c *harness.Cluster, rules []string) error {
	for _, name := range rules {
		rule, err := get(ctx, c, harness.Rules(), "", name)
		if err == nil {
			err = harness.ConditionTrue(rule, "Ready")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// toNames puts the clusters of the test for those of the documents.
func toNames(text string) string {
	return strings.NewReplacer("cluster-1", "alpha", "cluster-2", "beta", "cluster-3", "gamma").Replace(text)
}

// exampleCommands are the commands in the comment of an example: what stands further in than its prose.
func exampleCommands(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var commands strings.Builder
	goesOn := false
	for line := range strings.Lines(string(data)) {
		command, indented := strings.CutPrefix(line, "#     ")
		if indented && (goesOn || strings.HasPrefix(command, "kubectl ") || strings.HasPrefix(command, "agentctl ")) {
			commands.WriteString(command)
			goesOn = strings.HasSuffix(command, "\\\n") || strings.HasSuffix(command, "|\n")
		}
	}
	if commands.Len() == 0 {
		t.Fatalf("%s says no commands", file)
	}
	return toNames(commands.String())
}

func fileNames(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// exampleRules are the names of all rules in the files.
func exampleRules(t *testing.T, files []string) (names []string) {
	t.Helper()
	for _, file := range files {
		data, err := os.ReadFile(filepath.Join(exampleRulesDir, file))
		if err != nil {
			t.Fatal(err)
		}
		for document := range strings.SplitSeq(string(data), "\n---\n") {
			var object metav1.PartialObjectMetadata
			if err := yaml.Unmarshal([]byte(document), &object); err != nil {
				t.Fatal(err)
			}
			names = append(names, object.Name)
		}
	}
	return names
}

// exampleInputs writes the files that the commands name, and returns their folder.
func exampleInputs(t *testing.T, g *group) string {
	t.Helper()
	dir := t.TempDir()
	inputs := map[string]string{
		"tls.crt": string(g.alpha.Config.CertData), "tls.key": string(g.alpha.Config.KeyData),
		"ca-bundle.crt": "roots\n", "cluster-2.kubeconfig": "beta\n", "cluster-3.kubeconfig": "gamma\n",
	}
	for _, name := range []string{"cluster-1", "cluster-2"} {
		inputs["remote-secret-of-"+name+".yaml"] = toNames(strings.ReplaceAll(remoteSecret, "NAME", name))
	}
	for name, text := range inputs {
		if err := os.WriteFile(filepath.Join(dir, toNames(name)), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// remoteSecret is what `istioctl create-remote-secret` writes, but for the kubeconfig.
const remoteSecret = `apiVersion: v1
kind: Secret
metadata:
  annotations: {networking.istio.io/cluster: NAME}
  labels: {istio/multiCluster: "true"}
  name: istio-remote-secret-NAME
  namespace: istio-system
stringData: {NAME: a kubeconfig}
`

// clearExamples removes the examples from all clusters, with the labels of their commands.
func (g *group) clearExamples(t *testing.T, rules []string) {
	t.Helper()
	eventually(t, "the rules of the examples are gone", afterFault, func(ctx context.Context) error {
		var errs []error
		for _, c := range g.Clusters[:3] {
			for _, name := range rules {
				if err := noRule(c, name)(ctx); err != nil {
					errs = append(errs, err, remove(ctx, c, harness.Rules(), "", name))
				}
			}
		}
		return errors.Join(errs...)
	})
	for _, c := range g.Clusters[:3] {
		kubectl(t, c, "delete", "-f", exampleRightsDir, "--ignore-not-found", "--wait=false")
		kubectl(t, c, "delete", "namespace", "company-trust", "payments", "--ignore-not-found", "--wait=false")
		kubectl(t, c, "label", "cluster", c.Name, "tier-", "example.com/size-", "example.com/argocd-", "example.com/flux-")
	}
}
