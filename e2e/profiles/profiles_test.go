// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package profiles

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/cluster-inventory-api/apis/v1alpha1"
	"sigs.k8s.io/cluster-inventory-api/pkg/access"
	"sigs.k8s.io/yaml"

	chart "github.com/roster-mesh/roster/charts/agent"
	"github.com/roster-mesh/roster/e2e/harness"
)

const (
	upstream  = "sigs.k8s.io/cluster-inventory-api"
	inventory = "inventory"
	private   = harness.Namespace + "-private"
	within    = time.Minute
	crdName   = "clusterprofiles.multicluster.x-k8s.io"
)

func TestMain(m *testing.M) {
	if _, err := harness.InNetworkNamespace(); err != nil {
		fmt.Fprintln(os.Stderr, "e2e/profiles:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// room is a group of two clusters, or with Kubernetes of three; alpha publishes.
type room struct {
	*testing.T
	kind               string
	alpha, beta, gamma *harness.Cluster
	clusters           []*harness.Cluster // all of them
	betaID             string
}

// TestClusterProfiles: the CRDs arrive while the agent runs, first in the older version. A client with the library and the
// plugin reads a peer, once a person has let it. The newer version arrives and the CRD goes and comes back. A peer that does
// not answer keeps its profile, one that is removed loses it, and what others made stays.
func TestClusterProfiles(t *testing.T) {
	for _, kind := range []string{harness.Standalone, "newest"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			start(t, kind).all()
		})
	}
}

func (r *room) all() {
	t := r.T
	flags := []string{"--publish-cluster-profiles", "--publish-namespace", inventory, "--publish-cluster-set", "lab"}
	r.grantAgent()
	r.must("", r.alpha.StopAgent())
	r.must("", r.alpha.StartAgent(t.Context(), flags...))

	r.apply(r.crd("v1alpha1"))
	r.apply(propertyCRD)
	r.eventually("the profiles", r.whole)
	r.property("cluster.clusterset.k8s.io", r.id(r.alpha))
	r.property("clusterset.k8s.io", "lab")
	r.shareProperty()

	r.consume()

	versions := map[string]string{"alpha": r.profile("alpha").GetResourceVersion(), "beta": r.profile("beta").GetResourceVersion()}
	r.must("", r.alpha.StopAgent())
	r.must("", r.alpha.StartAgent(t.Context(), flags...))
	r.eventually("the agent publishes again", r.said("publishing ClusterProfiles", 2))
	r.must("", harness.Stays(t.Context(), "nothing is written", 3*time.Second, func(ctx context.Context) error {
		for name, version := range versions {
			if now := r.profile(name).GetResourceVersion(); now != version {
				return fmt.Errorf("%s went from %s to %s", name, version, now)
			}
		}
		return nil
	}))

	again := r.whole
	if r.kind != harness.Standalone { // where the API server ends with the agent
		r.lose() // what follows goes on while that is noticed
		again = r.listed
	}
	r.apply(r.crd("v1alpha2"))
	r.eventually("the newer version is in use", r.said("version=v1alpha2", 1))
	r.must(r.alpha.Kubectl(t.Context(), "delete", "crd", crdName))
	r.apply(r.crd("v1alpha2"))
	r.eventually("the profiles are there again", again)
	r.apply(strings.ReplaceAll(foreign, "NAMESPACE", inventory))
	if r.kind != harness.Standalone {
		r.lost()
	}
	r.must(r.alpha.Agentctl(t.Context(), "remove", "beta"))
	r.eventually("a peer that is removed", func(ctx context.Context) error {
		_, err := r.profiles().Get(ctx, "beta", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(errors.New("it is still there"), err)
	})
	r.profile("other") // is still there
}

func start(t *testing.T, kind string) *room {
	t.Helper()
	bin, err := harness.FindBinaries()
	if err != nil {
		t.Fatal(err)
	}
	bin.Kubernetes = kind
	names := []string{"alpha", "beta"}
	if kind != harness.Standalone {
		names = append(names, "gamma")
	}
	fleet, err := harness.Up(t.Context(), harness.Options{Binaries: bin, Dir: t.TempDir(), Names: names, Embedded: kind == harness.Standalone, Log: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := fleet.Close(); err != nil {
			t.Error(err)
		}
		for _, c := range fleet.Clusters {
			if t.Failed() {
				t.Logf("log of %s:\n%s", c.Name, c.LogTail(40))
			}
		}
	})
	r := &room{T: t, kind: kind, alpha: fleet.Clusters[0], beta: fleet.Clusters[1], clusters: fleet.Clusters}
	if kind != harness.Standalone {
		r.gamma = fleet.Clusters[2]
		errs := make([]error, len(r.clusters))
		var installing sync.WaitGroup
		for i, c := range r.clusters {
			installing.Go(func() {
				if errs[i] = c.Install(t.Context()); errs[i] == nil {
					errs[i] = c.StartAgent(t.Context())
				}
			})
		}
		installing.Wait()
		r.must("", errors.Join(errs...))
	}
	r.must(r.alpha.Agentctl(t.Context(), "join", "--peer-context", strings.Join(names[1:], ",")))
	r.must(r.alpha.Kubectl(t.Context(), "create", "namespace", inventory))
	r.betaID = r.id(r.beta)
	return r
}

func (r *room) must(out string, err error) string {
	r.Helper()
	if err != nil {
		r.Fatal(err, out)
	}
	return out
}

func (r *room) apply(manifest string) { r.Helper(); r.must(r.alpha.Apply(r.Context(), manifest)) }

func (r *room) id(c *harness.Cluster) string { r.Helper(); return r.must(c.ID(r.Context())) }

func (r *room) eventually(what string, cond func(context.Context) error) {
	r.Helper()
	if _, err := harness.Wait(r.Context(), what, within, cond); err != nil {
		r.Fatal(err)
	}
}

// said waits for the log of alpha.
func (r *room) said(text string, times int) func(context.Context) error {
	return func(context.Context) error {
		if n := strings.Count(r.alpha.Log(), text); n < times {
			return fmt.Errorf("said %d times: %s", n, text)
		}
		return nil
	}
}

// grantAgent gives alpha's agent what the chart's Roles with publish.clusterProfiles=true have, and no more.
func (r *room) grantAgent() {
	r.Helper()
	rights, err := chart.DefaultRights()
	if err != nil {
		r.Fatal(err)
	}
	rulesOf := func(all []chart.Right) (rules []rbacv1.PolicyRule) {
		for _, right := range all {
			if right.When == "publish.clusterProfiles" {
				rules = append(rules, rbacv1.PolicyRule{APIGroups: right.APIGroups, Resources: right.Resources, ResourceNames: right.ResourceNames, Verbs: right.Verbs})
			}
		}
		return rules
	}
	name := metav1.ObjectMeta{Name: "publish"}
	agent := []rbacv1.Subject{{Kind: "ServiceAccount", Name: harness.ServiceAccount, Namespace: harness.Namespace}}
	rbac, options := r.alpha.Kube.RbacV1(), metav1.CreateOptions{}
	_, err1 := rbac.Roles(inventory).Create(r.Context(), &rbacv1.Role{ObjectMeta: name, Rules: rulesOf(rights.Agent.Publish)}, options)
	_, err2 := rbac.RoleBindings(inventory).Create(r.Context(), &rbacv1.RoleBinding{ObjectMeta: name, Subjects: agent, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "publish"}}, options)
	_, err3 := rbac.ClusterRoles().Create(r.Context(), &rbacv1.ClusterRole{ObjectMeta: name, Rules: rulesOf(rights.Agent.Cluster)}, options)
	_, err4 := rbac.ClusterRoleBindings().Create(r.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: name, Subjects: agent, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "publish"}}, options)
	r.must("", errors.Join(err1, err2, err3, err4))
}

// crd is the CRD of ClusterProfile: that of the module, with v1alpha1. The module has no v1alpha2 yet; it is made here from
// what its types say: without credentialProviders, with an address that must be a URL, and a name that must be one for labels.
func (r *room) crd(newest string) string {
	r.Helper()
	dir := r.must(output(r.Context(), "go", "list", "-m", "-f", "{{.Dir}}", upstream))
	data, err := os.ReadFile(filepath.Join(strings.TrimSpace(dir), "config", "crd", "bases", "multicluster.x-k8s.io_clusterprofiles.yaml"))
	if err != nil {
		r.Fatal(err)
	}
	var crd unstructured.Unstructured
	if err := yaml.Unmarshal(data, &crd.Object); err != nil {
		r.Fatal(err)
	}
	versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	if err != nil || len(versions) != 1 {
		r.Fatalf("%d versions: %v", len(versions), err)
	}
	if newest == "v1alpha2" {
		newer := runtime.DeepCopyJSON(versions[0].(map[string]any))
		newer["name"], newer["storage"] = newest, false
		at := []string{"schema", "openAPIV3Schema", "properties"}
		unstructured.RemoveNestedField(newer, append(at, "status", "properties", "credentialProviders")...)
		rule := func(rule, message string, path ...string) {
			path = append(append([]string{}, at...), path...)
			if err := unstructured.SetNestedSlice(newer, []any{map[string]any{"rule": rule, "message": message}}, append(path, "x-kubernetes-validations")...); err != nil {
				r.Fatal(err)
			}
			if err := unstructured.SetNestedField(newer, int64(2048), append(path, "maxLength")...); err != nil {
				r.Fatal(err)
			}
		}
		rule("!format.labelValue().validate(self).hasValue()", "must be a label value", "spec", "properties", "clusterManager", "properties", "name")
		providers := append(append([]string{}, at...), "status", "properties", "accessProviders")
		if err := unstructured.SetNestedField(newer, int64(64), append(providers, "maxItems")...); err != nil {
			r.Fatal(err)
		}
		rule("isURL(self) && url(self).getHost() != ''", "must be a URL", "status", "properties", "accessProviders", "items", "properties", "cluster", "properties", "server")
		versions = append(versions, newer)
	}
	if err := unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions"); err != nil {
		r.Fatal(err)
	}
	// The protection of the group is the API server's own matter, and asks for this.
	annotations := crd.GetAnnotations()
	annotations["api-approved.kubernetes.io"] = "unapproved, as in the module"
	crd.SetAnnotations(annotations)
	out, err := yaml.Marshal(crd.Object)
	return r.must(string(out), err)
}

func (r *room) resource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "multicluster.x-k8s.io", Version: "v1alpha1", Resource: "clusterprofiles"}
}

func (r *room) profiles() interface {
	Get(context.Context, string, metav1.GetOptions, ...string) (*unstructured.Unstructured, error)
} {
	return r.alpha.Dynamic.Resource(r.resource()).Namespace(inventory)
}

func (r *room) profile(name string) *unstructured.Unstructured {
	r.Helper()
	u, err := r.profiles().Get(r.Context(), name, metav1.GetOptions{})
	if err != nil {
		r.Fatal(err)
	}
	return u
}

// complete returns nil when the profile of a cluster says what it should.
func (r *room) complete(ctx context.Context, c *harness.Cluster) error {
	u, err := r.profiles().Get(ctx, c.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	var p v1alpha1.ClusterProfile
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &p); err != nil {
		return err
	}
	if p.Spec.ClusterManager.Name != "roster" || p.Labels[v1alpha1.LabelClusterManagerKey] != "roster" || p.Labels["multicluster.x-k8s.io/inventory-member-id"] != r.id(c) {
		return fmt.Errorf("spec %+v, labels %v", p.Spec, p.Labels)
	}
	if p.Status.Version.Kubernetes == "" || len(p.Status.AccessProviders) != 1 || len(p.Status.CredentialProviders) > 0 {
		return fmt.Errorf("status %+v", p.Status)
	}
	return harness.ConditionTrue(u, v1alpha1.ClusterConditionControlPlaneHealthy)
}

// consume reads beta as a program of alpha that knows only its ClusterProfile: first without the grant, then with it.
func (r *room) consume() {
	r.Helper()
	r.apply(fmt.Sprintf(consumer, inventory, private, "peer-"+r.betaID))
	r.must(r.alpha.Kubectl(r.Context(), "-n", private, "delete", "rolebinding", "consumer"))
	kubeconfig := filepath.Join(r.TempDir(), "kubeconfig")
	token := r.must(r.alpha.Token(r.Context(), inventory, "consumer"))
	r.must("", r.alpha.WriteKubeconfig(kubeconfig, token))
	// Built when it is not in the build cache, which is where it runs.
	plugin := strings.TrimSpace(r.must(output(r.Context(), "go", "tool", "-n", upstream+"/plugins/kubeconfig-secretreader/cmd/plugin")))
	config := access.New([]access.Provider{{Name: "kubeconfig-secretreader", ExecConfig: &clientcmdapi.ExecConfig{
		APIVersion: "client.authentication.k8s.io/v1", Command: plugin, ProvideClusterInfo: true,
		Env: []clientcmdapi.ExecEnvVar{{Name: "KUBECONFIG", Value: kubeconfig}},
	}}})
	list := func(ctx context.Context) error {
		var p v1alpha1.ClusterProfile
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(r.profile("beta").Object, &p); err != nil {
			return err
		}
		peer, err := config.BuildConfigFromCP(&p)
		if err != nil {
			return err
		}
		client, err := kubernetes.NewForConfig(peer)
		if err != nil {
			return err
		}
		namespaces, err := client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, ns := range namespaces.Items {
			if ns.Name == metav1.NamespaceSystem && string(ns.UID) == r.betaID {
				return nil
			}
		}
		return fmt.Errorf("%d namespaces, none is kube-system of beta", len(namespaces.Items))
	}
	if err := list(r.Context()); err == nil {
		r.Fatal("the consumer reads beta without the grant")
	}
	r.apply(fmt.Sprintf(consumer, inventory, private, "peer-"+r.betaID))
	r.eventually("the consumer lists the namespaces of beta", list)
	if out, err := r.alpha.Kubectl(r.Context(), "--as", "system:serviceaccount:"+inventory+":consumer", "-n", private, "get", "secrets"); err == nil {
		r.Fatal("the consumer lists the private namespace:", out)
	}
}

func output(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", name, err, &stderr)
	}
	return string(out), err
}
