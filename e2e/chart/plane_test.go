// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/roster-mesh/roster/e2e/harness"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// TestOnAControlPlane is everything that needs an API server, on one.
func TestOnAControlPlane(t *testing.T) {
	c := cluster(t)
	t.Run("every set of values applies", func(t *testing.T) { everySetApplies(t, c) })
	t.Run("pods keep to restricted", func(t *testing.T) { podsKeepToRestricted(t, c) })
	t.Run("readers", func(t *testing.T) { readersRead(t, c) })
	t.Run("readers and the registry API have queues", func(t *testing.T) { othersAreQueued(t, c) })
	t.Run("CRDs", func(t *testing.T) { crdsAreUpgraded(t, c) })
	t.Run("address", func(t *testing.T) { addressIsFound(t, c) })
	t.Run("the agent stays up", func(t *testing.T) { agentStaysUp(t, c) })
	t.Run("CRDs change under the agent", func(t *testing.T) { crdsChangeUnderTheAgent(t, c) })
	t.Run("the chart comes and goes", func(t *testing.T) { chartComesAndGoes(t, c) })
	t.Run("the registry API comes and goes", func(t *testing.T) { registryComesAndGoes(t, c) })
}

func everySetApplies(t *testing.T, c *harness.Cluster) {
	for _, namespace := range []string{"inventory", "argocd", "apps"} { // of publish.namespace and renew.namespaces, which are there before the chart
		kubectl(t, c, "create", "namespace", namespace)
	}
	for _, set := range sets(t) {
		out, err := render(t, "--include-crds", "--values", valuesOf(t, set))
		if err != nil {
			t.Fatal(err)
		}
		var manifest []string
		for _, document := range documents(out) {
			if !strings.Contains(document, "apiVersion: monitoring.coreos.com/") {
				manifest = append(manifest, document)
			}
		}
		if _, err := c.Apply(t.Context(), strings.Join(manifest, "\n---\n"), "--dry-run=server", "--validate=strict"); err != nil {
			t.Errorf("%s: %v", set, err)
		}
	}
}

// podsKeepToRestricted has the API server judge each pod that the chart makes, in a namespace that takes no others.
func podsKeepToRestricted(t *testing.T, c *harness.Cluster) {
	kubectl(t, c, "label", "namespace", harness.Namespace, "pod-security.kubernetes.io/enforce=restricted")
	// The agent, the hook, the test, the registry API and the page.
	out, err := render(t, "--values", valuesOf(t, "broad"), "--set", "registry.enabled=true,ui.enabled=true,ui.tlsSecretName=page")
	if err != nil {
		t.Fatal(err)
	}
	pods := 0
	for _, document := range documents(out) {
		pod := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &pod.Object); err != nil {
			t.Fatal(err)
		}
		if template, found, _ := unstructured.NestedMap(pod.Object, "spec", "template"); found {
			template["metadata"] = map[string]any{"name": "judged", "namespace": harness.Namespace}
			pod.Object = template
		} else if pod.GetKind() != "Pod" {
			continue
		}
		pod.SetAPIVersion("v1")
		pod.SetKind("Pod")
		// The account must exist, and the hook's does not when nothing runs it.
		unstructured.RemoveNestedField(pod.Object, "spec", "serviceAccountName")
		pods++
		_, err := c.Dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "pods"}).Namespace(harness.Namespace).
			Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			t.Errorf("%s: %v", title(document), err)
		}
	}
	if pods != 5 {
		t.Errorf("the chart has %d pods", pods)
	}
}

// readersRead: the agents of other clusters read the Secrets of one namespace, or with rbac.broadSecretRead all.
func readersRead(t *testing.T, c *harness.Cluster) {
	may := func(namespace string) error {
		_, err := c.Kubectl(t.Context(), "auth", "can-i", "list", "secrets", "-n", namespace, "-q",
			"--as=system:serviceaccount:"+harness.Namespace+"-readers:peer", "--as-group=system:serviceaccounts:"+harness.Namespace+"-readers")
		return err
	}
	if err := may(harness.Namespace); err != nil {
		t.Errorf("no Secrets in the agent's namespace: %v", err)
	}
	for _, closed := range []string{"default", harness.Namespace + "-private"} {
		if may(closed) == nil {
			t.Errorf("Secrets in %s", closed)
		}
	}
	grant := func(broad string) {
		out, err := render(t, "--set", "rbac.broadSecretRead="+broad, "--show-only", "templates/rbac-readers.yaml")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Apply(t.Context(), out); err != nil {
			t.Fatal(err)
		}
	}
	grant("true")
	eventually(t, "all Secrets, when the chart says so", func(context.Context) error { return may("default") })
	grant("false")
}

// othersAreQueued: the API server takes the requests of the agents of other clusters, and those of the registry API, apart from
// all others and from each other.
func othersAreQueued(t *testing.T, c *harness.Cluster) {
	out, err := render(t, "--set", "registry.enabled=true", "--show-only", "templates/flowcontrol.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Apply(t.Context(), out); err != nil {
		t.Fatal(err)
	}
	schemaOf := func(ctx context.Context, user string, groups ...string) (string, error) {
		config := rest.CopyConfig(c.Config)
		config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
		client, err := rest.HTTPClientFor(config)
		if err != nil {
			return "", err
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, config.Host+"/api/v1/namespaces/"+harness.Namespace+"/secrets", http.NoBody)
		if err != nil {
			return "", err
		}
		answer, err := client.Do(request)
		if err != nil {
			return "", err
		}
		return answer.Header.Get("X-Kubernetes-Pf-Flowschema-Uid"), answer.Body.Close()
	}
	const readers, registry = harness.Namespace + "-readers", "cluster-registry-api"
	for account, schema := range map[string]string{
		readers + ":peer": readers, harness.Namespace + ":" + registry: registry,
		v1alpha1.PrivateNamespace(harness.Namespace) + ":" + v1alpha1.SwapAccount: readers, // of whoever has a swapped token
	} {
		want := kubectl(t, c, "get", "flowschema", schema, "-o=jsonpath={.metadata.uid}")
		user, namespace := "system:serviceaccount:"+account, strings.Split(account, ":")[0]
		eventually(t, "requests of "+account+" are of their level", func(ctx context.Context) error {
			if got, err := schemaOf(ctx, user, "system:serviceaccounts:"+namespace, "system:serviceaccounts", "system:authenticated"); err != nil || got != want {
				return fmt.Errorf("it is %q, want %q: %w", got, want, err)
			}
			return nil
		})
		if got, err := schemaOf(t.Context(), "somebody", "system:authenticated"); err != nil || got == want || got == "" {
			t.Errorf("a request of another user is of schema %q: %v", got, err)
		}
	}
	kubectl(t, c, "delete", "flowschema,prioritylevelconfiguration", registry) // a release of the chart brings those
}

const crdOfClusters = "clusters.clusterregistry.k8s.cisco.com"

// crdsAreUpgraded: an agent stays up beside CRDs that do not suit it and says so, and what the hook runs fixes that with
// no more than the hook's rights.
func crdsAreUpgraded(t *testing.T, c *harness.Cluster) {
	version := func(schema, oldest string) {
		kubectl(t, c, "annotate", "--overwrite", "crd", crdOfClusters,
			"cluster-registry.k8s.cisco.com/schema-version="+schema, "cluster-registry.k8s.cisco.com/schema-oldest-agent="+oldest)
	}
	if hooks(t, c) {
		t.Error("helm would run the hook where the CRDs are those of the chart")
	}
	version("0", "0")
	if !hooks(t, c) {
		t.Error("helm would not run the hook where a CRD is older")
	}
	if err := c.LaunchAgent("--keep-trying"); err != nil {
		t.Fatal(err)
	}
	stop := func() {
		if err := c.StopAgent(); err != nil {
			t.Error(err)
		}
	}
	defer stop()
	eventually(t, "an agent beside older CRDs is not ready", notReady(c, crdOfClusters, "is older than this agent", "helm"))
	config := hookAccount(t, c)
	applyCRDs(t, config)
	eventually(t, "it is, once they are upgraded", c.AgentReady)
	if n := strings.Count(c.Log(), "is older than this agent"); n != 1 {
		t.Errorf("the log says so %d times", n)
	}

	stop()
	version("99", "1")
	applyCRDs(t, config)
	if got := kubectl(t, c, "get", "crd", crdOfClusters, `-o=jsonpath={.metadata.annotations.cluster-registry\.k8s\.cisco\.com/schema-version}`); got != "99" {
		t.Errorf("a newer CRD was put back to %s", got)
	}
	if err := c.StartAgent(t.Context(), "--keep-trying"); err != nil {
		t.Errorf("an agent does not go on with newer CRDs: %v", err)
	}
	stop()
	version("99", "99")
	if err := c.LaunchAgent("--keep-trying"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "an agent that is too old is not ready", notReady(c, "this agent is older than the CRD "+crdOfClusters))
	eventually(t, "the status of its cluster says the same", func(context.Context) error {
		status := kubectl(t, c, "get", "clusters.clusterregistry.k8s.cisco.com", "alpha", "-o=jsonpath={.status.message}")
		if !strings.Contains(status, "this agent is older than the CRD") {
			return fmt.Errorf("it says %q", status)
		}
		return nil
	})
	version(strconv.Itoa(v1alpha1.SchemaVersion), strconv.Itoa(v1alpha1.SchemaOldestAgent))
	eventually(t, "it is, once they suit it", c.AgentReady)
}

// adminOf is a kubeconfig of the cluster's administrator.
func adminOf(t *testing.T, c *harness.Cluster) string {
	t.Helper()
	admin := filepath.Join(t.TempDir(), "admin")
	if err := os.WriteFile(admin, []byte(kubectl(t, c, "config", "view", "--raw", "--minify", "--flatten")), 0o600); err != nil {
		t.Fatal(err)
	}
	return admin
}

// hooks says whether helm, asking this cluster, would run the hook.
func hooks(t *testing.T, c *harness.Cluster) bool {
	t.Helper()
	admin := adminOf(t, c)
	out, err := helm(t.Context(), t, "template", release, binaries(t).Chart, "-n", harness.Namespace, "--is-upgrade", "--dry-run=server", "--kubeconfig", admin)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(out, "templates/crds-upgrade.yaml")
}

// hookAccount makes what the hook runs as, and returns a kubeconfig with its token.
func hookAccount(t *testing.T, c *harness.Cluster) string {
	t.Helper()
	out, err := render(t, "--set", "crds.upgrade=always", "--show-only", "templates/crds-upgrade.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, document := range documents(out) {
		if strings.Contains(document, "kind: Job\n") {
			continue
		}
		if _, err := c.Apply(t.Context(), document); err != nil {
			t.Fatal(err)
		}
	}
	token, err := c.Token(t.Context(), harness.Namespace, harness.ServiceAccount+"-crds")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "hook")
	if err := c.WriteKubeconfig(path, token); err != nil {
		t.Fatal(err)
	}
	return path
}

func applyCRDs(t *testing.T, kubeconfig string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), binaries(t).Agent, "crds", "apply", "--kubeconfig", kubeconfig).CombinedOutput()
	if err != nil {
		t.Fatalf("agent crds apply: %v\n%s", err, out)
	}
}

// addressIsFound: the agent takes the address from the Service, with the rights that the chart gives it, and tells it
// again when it changes.
func addressIsFound(t *testing.T, c *harness.Cluster) {
	const service = harness.ServiceAccount + "-mesh"
	install := func(kind string) {
		out, err := render(t, "--set", "localCluster.name=alpha,replicas=0,mesh.service.port=443,mesh.service.nodePort=31946,mesh.service.type="+kind)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Apply(t.Context(), out); err != nil {
			t.Fatal(err)
		}
	}
	install("LoadBalancer")
	if err := c.StopAgent(); err != nil {
		t.Fatal(err)
	}
	kubectl(t, c, "patch", "clusters.clusterregistry.k8s.cisco.com", "alpha", "--type=json", `-p=[{"op":"remove","path":"/spec/mesh/endpoints"}]`)
	if err := c.LaunchAgent("--mesh-advertise=", "--mesh-service", harness.Namespace+"/"+service); err != nil {
		t.Fatal(err)
	}
	eventually(t, "without an address it is not ready", notReady(c, harness.Namespace+"/"+service, "has no external address"))
	give := func(ingress string) {
		kubectl(t, c, "patch", "service", service, "-n", harness.Namespace, "--subresource=status", "--type=merge", "-p", `{"status":{"loadBalancer":{"ingress":[`+ingress+`]}}}`)
	}
	give(`{"ip":"203.0.113.7"}`)
	eventually(t, "with one it is ready", c.AgentReady)
	eventually(t, "the address is in the Cluster object", endpoints(c, "203.0.113.7:443"))
	give(`{"hostname":"mesh.example.com"}`)
	eventually(t, "another address is, too", endpoints(c, "mesh.example.com:443"))

	node := `{"apiVersion":"v1","kind":"Node","metadata":{"name":"n1"}}`
	if _, err := c.Apply(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	kubectl(t, c, "patch", "node", "n1", "--subresource=status", "--type=merge", "-p",
		`{"status":{"addresses":[{"type":"InternalIP","address":"10.1.2.3"}],"conditions":[{"type":"Ready","status":"True"}]}}`)
	install("NodePort")
	eventually(t, "a node's address is, with NodePort", endpoints(c, "10.1.2.3:31946"))
	probe(t, c)
}

func endpoints(c *harness.Cluster, want ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		out, err := c.Kubectl(ctx, "get", "clusters.clusterregistry.k8s.cisco.com", "alpha", "-o=jsonpath={.spec.mesh.endpoints}")
		if err != nil {
			return err
		}
		text, err := json.Marshal(want)
		if err != nil {
			return err
		}
		if out != string(text) {
			return fmt.Errorf("it has %s", out)
		}
		return nil
	}
}

// probe is what the chart's test pod runs.
func probe(t *testing.T, c *harness.Cluster) {
	t.Helper()
	key := kubectl(t, c, "get", "clusters.clusterregistry.k8s.cisco.com", "alpha", "-o=jsonpath={.spec.mesh.publicKey}")
	run := func(mesh int) (string, error) {
		out, err := exec.CommandContext(t.Context(), binaries(t).Agent, "probe",
			fmt.Sprintf("--http=http://127.0.0.1:%d", c.HTTPPort), fmt.Sprintf("--mesh=127.0.0.1:%d", mesh)).CombinedOutput()
		return string(out), err
	}
	out, err := run(c.MeshPort)
	if err != nil || !strings.Contains(out, "ready: yes") || !strings.Contains(out, key) || !strings.Contains(out, "members: 0 alive") {
		t.Errorf("a probe of an agent that is well: %v\n%s", err, out)
	}
	if out, err := run(c.HTTPPort); err == nil || !strings.Contains(out, "no mesh port") {
		t.Errorf("a probe of another port: %v\n%s", err, out)
	}
}
