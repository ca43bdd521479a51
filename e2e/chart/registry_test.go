// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/roster-mesh/roster/e2e/harness"
)

// registryComesAndGoes: the server of the registry API writes its CA into the APIService with the rights of its account, and
// helm leaves it there, whatever it does to the release that the chart has in namespace elsewhere. There are no pods here: the
// server runs beside the API server, which cannot reach it.
func registryComesAndGoes(t *testing.T, c *harness.Cluster) {
	const apiService = "apiservice/v1alpha1.clusterregistry.k8s.io"
	admin := adminOf(t, c)
	run := func(args ...string) {
		t.Helper()
		if out, err := helm(t.Context(), t, append(args, "-n", "elsewhere", "--kubeconfig", admin)...); err != nil {
			t.Fatalf("helm %v: %v\n%s", args, err, out)
		}
	}
	upgrade := func(flags ...string) {
		t.Helper()
		run(append([]string{"upgrade", "roster", binaries(t).Chart, "--set", "localCluster.name=alpha,replicas=0"}, flags...)...)
	}
	bundle := func() string {
		t.Helper()
		return kubectl(t, c, "get", apiService, "-o=jsonpath={.spec.caBundle}")
	}
	upgrade("--set=registry.enabled=true")
	account := kubectl(t, c, "get", "deployment", "cluster-registry-api", "-n", "elsewhere", "-o=jsonpath={.spec.template.spec.serviceAccountName}")
	stop := serveRegistry(t, c, "elsewhere", account)
	eventually(t, "the APIService names the server's CA", func(context.Context) error {
		if bundle() == "" {
			return errors.New("it names none")
		}
		return nil
	})
	ca := bundle()
	for _, step := range []struct {
		what string
		do   func()
	}{
		{"an upgrade", func() { upgrade("--set=registry.enabled=true,registry.replicas=3") }},
		{"an upgrade by helm's own merge", func() {
			upgrade("--set=registry.enabled=true,registry.callers={fleet}", "--server-side=false")
		}},
		{"an upgrade by server-side apply", func() { upgrade("--set=registry.enabled=true", "--server-side=true", "--force-conflicts") }},
		{"a rollback", func() { run("rollback", "roster") }},
	} {
		stop() // so that nobody puts back what helm takes away
		step.do()
		if got := bundle(); got != ca {
			t.Errorf("after %s the APIService names another CA, or none: %.40q", step.what, got)
		}
		stop = serveRegistry(t, c, "elsewhere", account)
	}
	if got := kubectl(t, c, "get", "clusterrolebinding", "cluster-registry-api-caller", "-o=jsonpath={.subjects[*].name}"); got != "fleet" {
		t.Errorf("after the rollback %s may ask", got)
	}
	// The server goes on without its APIService, and finds the next one.
	kubectl(t, c, "delete", apiService)
	upgrade("--set=registry.enabled=true")
	eventually(t, "the next APIService names the CA", func(context.Context) error {
		if bundle() != ca {
			return errors.New("it names another, or none")
		}
		return nil
	})
	stop()
	upgrade() // which also takes the server's account away
	if _, err := c.Kubectl(t.Context(), "get", apiService); err == nil {
		t.Error("without registry.enabled the APIService stays")
	}
	upgrade("--set=registry.enabled=true")
	namespaceIsDeleted(t, c, apiService)
}

// namespaceIsDeleted is what docs/uninstall.md says about a namespace that is deleted under a release with the registry API.
func namespaceIsDeleted(t *testing.T, c *harness.Cluster, apiService string) {
	kubectl(t, c, "delete", "namespace", "elsewhere", "--wait=false")
	eventually(t, "the namespace says why it is not deleted", func(context.Context) error {
		said := kubectl(t, c, "get", "namespace", "elsewhere", "-o=jsonpath={.status.conditions}")
		if !strings.Contains(said, "clusterregistry.k8s.io/v1alpha1") || !strings.Contains(said, "DiscoveryFailed") {
			return errors.New("it says " + said)
		}
		return nil
	})
	kubectl(t, c, "delete", apiService)
	eventually(t, "the namespace is deleted", func(ctx context.Context) error {
		if _, err := c.Kubectl(ctx, "get", "namespace", "elsewhere"); err == nil {
			return errors.New("it is there")
		}
		return nil
	})
}

// serveRegistry runs the server with an account of a namespace, until it is stopped or the test ends.
func serveRegistry(t *testing.T, c *harness.Cluster, namespace, account string) (stop func()) {
	t.Helper()
	token, err := c.Token(t.Context(), namespace, account)
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(t.TempDir(), "registry")
	if err := c.WriteKubeconfig(kubeconfig, token); err != nil {
		t.Fatal(err)
	}
	address, err := harness.FreeAddress(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	cmd := exec.Command(filepath.Join(binaries(t).Root, "bin", "roster-apiserver"), "aggregated",
		"--kubeconfig", kubeconfig, "--listen", address, "--namespace", namespace, "--secret-namespace", namespace+"-private")
	cmd.Stderr = &said
	process, err := harness.StartProcess(cmd)
	if err != nil {
		t.Fatalf("run `make apiserver` first: %v", err)
	}
	stop = func() {
		if process.Ended() {
			return
		}
		if err := process.Signal(syscall.SIGTERM, within); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(func() {
		stop()
		if t.Failed() {
			t.Logf("a server of the registry API said:\n%s", &said)
		}
	})
	return stop
}
