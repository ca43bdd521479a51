// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package registryapi tests the registry API, clusterregistry.k8s.io, as its callers see it: behind the aggregation layer of a
// Kubernetes API server, and as a part of a standalone one. Every test runs on both.
package registryapi

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/roster-mesh/roster/e2e/harness"
	view "github.com/roster-mesh/roster/kube/api/registry/v1alpha1"
	"github.com/roster-mesh/roster/kube/client/versioned"
	stored "github.com/roster-mesh/roster/kube/client/versioned/typed/api/v1alpha1"
	shown "github.com/roster-mesh/roster/kube/client/versioned/typed/registry/v1alpha1"
)

const (
	// within bounds anything that takes some requests, on a busy machine.
	within = time.Minute
	// rightsWithin is how soon a watch ends whose caller has got or lost a right.
	rightsWithin = 15 * time.Second
)

func TestMain(m *testing.M) {
	if _, err := harness.InNetworkNamespace(); err != nil {
		fmt.Fprintln(os.Stderr, "e2e/registryapi:", err)
		os.Exit(1)
	}
	// They wait more than they compute. A -parallel of the command line, which Run reads, counts.
	if err := flag.Set("test.parallel", "8"); err != nil {
		fmt.Fprintln(os.Stderr, "e2e/registryapi:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// front is an API server that serves the registry API.
type front struct {
	*harness.Cluster

	// Of the server behind the aggregation layer; a standalone one has none.
	direct     string // URL
	manifest   string // what leads there, and its rights
	program    string
	kubeconfig string // of the server's account
	server     *harness.Process
}

// TestRegistryAPI runs each test in front of each kind of API server.
func TestRegistryAPI(t *testing.T) {
	bin, err := harness.FindBinaries()
	if err != nil {
		t.Fatal(err)
	}
	kinds := []string{harness.Standalone, "newest"}
	if os.Getenv(harness.EnvKubernetes) != "" {
		kinds = strings.Split(os.Getenv(harness.EnvKubernetes), ",")
	}
	bin.Kubernetes = strings.Join(kinds, ",")
	names := []string{"alpha", "beta"}[:len(kinds)]
	fleet, err := harness.Up(t.Context(), harness.Options{Binaries: bin, Dir: t.TempDir(), Names: names, Log: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := fleet.Close(); err != nil {
			t.Error(err)
		}
	})
	for i, kind := range kinds {
		t.Run(cmp.Or(kind, "newest"), func(t *testing.T) {
			if !*figures {
				t.Parallel()
			}
			f := &front{Cluster: fleet.Clusters[i]}
			if err := f.Install(t.Context()); err != nil {
				t.Fatal(err)
			}
			if kind != harness.Standalone {
				f.aggregate(t, bin)
			}
			f.all(t)
		})
	}
}

// all runs every test of a file of this package. Those that look at what is theirs alone, or at what a caller of theirs may
// see, run beside each other after the others.
func (f *front) all(t *testing.T) {
	for _, test := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"verbs", f.testVerbs},
		{"apply", f.testApply},
		{"status", f.testStatus},
		{"bad input", f.testBadInput},
		{"copies", f.testCopies},
		{"pages", f.testPages},
		{"four callers", f.testFourCallers},
		{"unreadable", f.testUnreadable},
		{"informer", f.testInformer},
		{"forged headers", f.testForgedHeaders},
		{"direct", f.testDirect},
		{"certificate", f.testCertificate},
		{"no aggregation layer", f.testNoAggregationLayer},
		{"figures", f.measure},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t) })
	}
	for _, test := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"kubectl", f.testKubectl},
		{"groups", f.testGroups},
		{"protected", f.testProtected},
		{"rights change", f.testRightsChange},
		{"watch after a grant", f.testWatchAfterGrant},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t)
		})
	}
}

// aggregate starts roster-apiserver aggregated behind the API server, with the account and the rights that it has in a cluster.
func (f *front) aggregate(t *testing.T, bin harness.Binaries) {
	t.Helper()
	program := filepath.Join(bin.Root, "bin", "roster-apiserver")
	if _, err := os.Stat(program); err != nil {
		t.Fatal("run `make apiserver` first:", err)
	}
	address, err := harness.FreeAddress(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	f.manifest = manifest(t, bin, port)
	if _, err := f.Apply(t.Context(), f.manifest); err != nil {
		t.Fatal(err)
	}
	token, err := f.Token(t.Context(), harness.Namespace, "cluster-registry-api")
	if err != nil {
		t.Fatal(err)
	}
	f.program, f.kubeconfig = program, filepath.Join(t.TempDir(), "kubeconfig")
	if err := f.WriteKubeconfig(f.kubeconfig, token); err != nil {
		t.Fatal(err)
	}
	f.server = start(t, program, "aggregated", "--kubeconfig", f.kubeconfig, "--listen", address)
	f.direct = "https://" + address
	eventually(t, "the API server passes requests on", func(ctx context.Context) error {
		_, err := f.shown(t, "").List(ctx, metav1.ListOptions{Limit: 1})
		return err
	})
}

// manifest is what the chart has for the registry API, with a server that runs here in the place of its pods.
func manifest(t *testing.T, bin harness.Binaries, port string) string {
	t.Helper()
	args := []string{"template", "roster", bin.Chart, "--namespace", harness.Namespace, "--set", "registry.enabled=true"}
	for _, template := range []string{"registry", "registry-rbac", "registry-callers", "flowcontrol"} {
		args = append(args, "--show-only", "templates/"+template+".yaml")
	}
	out, err := exec.CommandContext(t.Context(), bin.Helm, args...).Output()
	if err != nil {
		t.Fatal(err)
	}
	var documents []string
	for document := range strings.SplitSeq(string(out), "\n---\n") {
		switch {
		case strings.Contains(document, "\nkind: Deployment\n") || strings.Contains(document, "\nkind: PodDisruptionBudget\n"):
			continue
		case strings.Contains(document, "\nkind: Service\n"):
			head, _, _ := strings.Cut(document, "\nspec:\n")
			document = head + "\nspec: {type: ExternalName, externalName: localhost}"
		case strings.Contains(document, "\nkind: APIService\n"):
			document = strings.Replace(document, "    port: 443", "    port: "+port, 1)
		}
		documents = append(documents, document)
	}
	return strings.Join(documents, "\n---\n")
}

// start runs a program until the test ends, and returns when it says that it is ready.
func start(t *testing.T, program string, args ...string) *harness.Process {
	t.Helper()
	cmd := exec.Command(program, args...)
	stderr := &bytes.Buffer{}
	cmd.Stderr = stderr
	stdout, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = writer
	process, err := harness.StartProcess(cmd)
	_ = writer.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := process.Signal(syscall.SIGTERM, within); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("the server said:\n%s", stderr)
		}
	})
	ready := make(chan bool, 1)
	go func() {
		lines := bufio.NewScanner(stdout)
		ready <- lines.Scan() && lines.Text() == "ready"
		_ = stdout.Close()
	}()
	select {
	case ok := <-ready:
		if !ok {
			<-process.Done()
			t.Fatalf("the server ended: %s", stderr)
		}
	case <-time.After(within):
		t.Fatal("the server is not ready")
	}
	return process
}

// as is the configuration of a caller; an empty one is the administrator.
func (f *front) as(caller string) *rest.Config {
	config := rest.CopyConfig(f.Config)
	config.QPS = -1
	config.WarningHandler = rest.NoWarnings{}
	if caller != "" {
		config.Impersonate = rest.ImpersonationConfig{UserName: caller, Groups: []string{"system:authenticated"}}
	}
	return config
}

// shown are the Clusters of the registry API, for a caller.
func (f *front) shown(t *testing.T, caller string) shown.ClusterInterface {
	t.Helper()
	client, err := versioned.NewForConfig(f.as(caller))
	if err != nil {
		t.Fatal(err)
	}
	return client.RegistryV1alpha1().Clusters()
}

// stored are the Clusters behind, for the administrator.
func (f *front) stored(t *testing.T) stored.ClusterInterface {
	t.Helper()
	client, err := versioned.NewForConfig(f.as(""))
	if err != nil {
		t.Fatal(err)
	}
	return client.ClusterRegistryV1alpha1().Clusters()
}

// cluster is one as somebody writes it; group may be empty.
func cluster(name, group string) *view.Cluster {
	c := &view.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if group != "" {
		c.Labels = map[string]string{"clusterregistry.k8s.io/cluster-group": group}
	}
	c.Spec.KubernetesAPIEndpoints.ServerEndpoints = []view.ServerAddressByClientCIDR{{ClientCIDR: "0.0.0.0/0", ServerAddress: name + ".example.com:6443"}}
	return c
}

// make creates a Cluster, which goes with the test.
func (f *front) make(t *testing.T, c *view.Cluster) *view.Cluster {
	t.Helper()
	made, err := f.shown(t, "").Create(t.Context(), c, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	f.removed(t, made.Name)
	return made
}

// removed deletes a Cluster when the test ends.
func (f *front) removed(t *testing.T, name string) {
	t.Helper()
	client := f.stored(t)
	t.Cleanup(func() {
		_ = client.Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{}) // it may be gone
	})
}

func eventually(t *testing.T, what string, cond func(context.Context) error) time.Duration {
	t.Helper()
	took, err := harness.Wait(t.Context(), what, within, cond)
	if err != nil {
		t.Fatal(err)
	}
	return took
}

var errNotYet = errors.New("not yet")
