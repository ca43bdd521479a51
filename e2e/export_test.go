// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/roster-mesh/roster/e2e/harness"
)

// The list of a group goes into an API server outside it as a file, and comes out of there as it went in. A file with one
// unknown field changes nothing there. As a kubeconfig the list leads to the clusters, as somebody who only reads.
func TestExportAndImport(t *testing.T) {
	g := joined(t)
	names := []string{"alpha", "beta", "gamma"}
	t.Cleanup(func() {
		for _, name := range names {
			if err := remove(lasting(t), g.delta, harness.Clusters(), "", name); err != nil {
				t.Error(err)
			}
			deleteSecret(t, g.delta, name)
		}
	})
	dir := t.TempDir()
	file, back := filepath.Join(dir, "clusters.yaml"), filepath.Join(dir, "back.yaml")
	agentctl(t, g, "export", "--context", "alpha", "--with-credentials", "--to", file)
	exported, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	apply(t, g.delta, string(exported), "--dry-run=server")

	broken := write(t, "broken.yaml", strings.Replace(string(exported), "    clusterID: ", "    clusterId: x\n    clusterID: ", 1))
	if a := g.ask(t.Context(), "import", broken, "--context", "delta"); a.code != 1 || !strings.Contains(a.out, "spec.clusterId: Forbidden: no such field") {
		t.Errorf("import of a broken file ends with %d:\n%s", a.code, a.out)
	}
	// The API server itself finds this one, on trial, in the last cluster of the file.
	last := strings.LastIndex(string(exported), "publicKey: ")
	broken = write(t, "broken.yaml", string(exported[:last])+strings.Replace(string(exported[last:]), "publicKey: ", "publicKey: AAAA", 1))
	if a := g.ask(t.Context(), "import", broken, "--context", "delta"); a.code != 1 || !strings.Contains(a.out, "nothing was written") {
		t.Errorf("import of a broken file ends with %d:\n%s", a.code, a.out)
	}
	for _, name := range names {
		if err := absent(g.delta, harness.Clusters(), "", name)(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := noSecret(g.delta, name)(t.Context()); err != nil {
			t.Fatal(err)
		}
	}

	t.Log(agentctl(t, g, "import", file, "--context", "delta"))
	agentctl(t, g, append([]string{"export", "--context", "delta", "--with-credentials", "--to", back}, names...)...)
	if returned, err := os.ReadFile(back); err != nil || string(returned) != string(exported) {
		t.Errorf("what came back is not what was exported: %v\n%s", err, agentctl(t, g, "export", "--context", "delta"))
	}
	if out := agentctl(t, g, "import", file, "--context", "delta"); strings.Count(out, " unchanged\n") != 2*len(names) {
		t.Errorf("a second import:\n%s", out)
	}

	kubeconfig := filepath.Join(dir, "kubeconfig")
	agentctl(t, g, "export", "--context", "delta", "--with-credentials", "-o", "kubeconfig", "--to", kubeconfig, "alpha", "beta", "gamma")
	for _, c := range []*harness.Cluster{g.alpha, g.beta, g.gamma} {
		id := kubectl(t, c, "--kubeconfig", kubeconfig, "--context", c.Name, "get", "namespace", "kube-system", "-o", "jsonpath={.metadata.uid}")
		if id != clusterID(t, c) {
			t.Errorf("context %s of the exported kubeconfig leads to %s, not %s", c.Name, id, clusterID(t, c))
		}
	}

	operates(t, g, g.alpha, g.beta, g.gamma)

	plugin := write(t, "plugin.kubeconfig", agentctl(t, g, "kubeconfig", "--context", "alpha", "beta", "gamma"))
	if data, err := os.ReadFile(plugin); err != nil || strings.Contains(string(data), "token") {
		t.Errorf("a kubeconfig with a credential: %v\n%s", err, data)
	}
	for _, c := range []*harness.Cluster{g.beta, g.gamma} {
		if id := kubectl(t, g.alpha, "--kubeconfig", plugin, "--context", c.Name, "get", "namespace", "kube-system", "-o", "jsonpath={.metadata.uid}"); id != clusterID(t, c) {
			t.Errorf("context %s leads to %s, not %s", c.Name, id, clusterID(t, c))
		}
		if out, err := g.alpha.Kubectl(t.Context(), "--kubeconfig", plugin, "--context", c.Name, "create", "configmap", "written"); err == nil || !strings.Contains(err.Error(), "forbidden") {
			t.Errorf("a reader's credential writes: %v\n%s", err, out)
		}
	}
}

// operates does what the kubeconfig provider of multicluster-runtime does with exported Secrets: it finds them by their label in one
// namespace, takes the name of a Secret for that of the cluster, and goes there by what is under the key kubeconfig.
func operates(t *testing.T, g *group, clusters ...*harness.Cluster) {
	t.Helper()
	const namespace = "my-operator"
	kubectl(t, g.delta, "create", "namespace", namespace)
	t.Cleanup(func() { kubectl(t, g.delta, "delete", "namespace", namespace, "--wait=false") })
	args := []string{"export", "--context", "delta", "--with-credentials", "-o", "multicluster-runtime"}
	want := map[string]string{}
	for _, c := range clusters {
		args, want[c.Name] = append(args, c.Name), clusterID(t, c)
	}
	apply(t, g.delta, agentctl(t, g, args...), "-n", namespace)
	secrets, err := g.delta.Kube.CoreV1().Secrets(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "sigs.k8s.io/multicluster-runtime-kubeconfig=true"})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, secret := range secrets.Items {
		config, err := clientcmd.RESTConfigFromKubeConfig(secret.Data["kubeconfig"])
		if err != nil {
			t.Fatalf("Secret %s: %v", secret.Name, err)
		}
		there, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatalf("Secret %s: %v", secret.Name, err)
		}
		system, err := there.CoreV1().Namespaces().Get(t.Context(), metav1.NamespaceSystem, metav1.GetOptions{})
		if err != nil {
			t.Fatalf("Secret %s: %v", secret.Name, err)
		}
		got[secret.Name] = string(system.UID)
	}
	if !maps.Equal(got, want) {
		t.Errorf("the Secrets lead to %v, not %v", got, want)
	}
}
