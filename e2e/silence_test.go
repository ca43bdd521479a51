// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/e2e/harness"
)

// hasNoSecret fails when a text has a value of a Secret, or what credentials and keys begin with.
func hasNoSecret(t *testing.T, what, text, value string) {
	t.Helper()
	// A body may be printed in hexadecimal, where nothing in it is found: none may be printed at all.
	for _, secret := range []string{value, base64.StdEncoding.EncodeToString([]byte(value)), "Request Body", "Response Body", "PRIVATE KEY", "eyJhbGciOi"} {
		if i := strings.Index(text, secret); i >= 0 {
			t.Errorf("%s holds %q: …%.200s…", what, secret, text[max(0, i-100):])
		}
	}
}

// No secret is ever logged, at the most talkative level either: not the content of copied Secrets, and not
// the credentials and keys that the agent itself reads and writes.
func TestNoSecretsInLogs(t *testing.T) {
	g := joined(t)
	g.cleanUp(t, "unspoken")
	const value = "never-to-be-logged-8b1d"
	if err := g.beta.KillAgent(); err != nil {
		t.Fatal(err)
	}
	before := len(g.beta.Log())
	if err := g.beta.StartAgent(t.Context(), "--log-level", "debug"); err != nil {
		t.Fatal(err)
	}
	g.share(t, "unspoken", value)
	deleteSecret(t, g.beta, "unspoken")
	eventually(t, "the copy is restored", within, hasCopy(g.beta, g.gamma, "unspoken", value))
	if err := g.beta.RestartAgent(t.Context()); err != nil {
		t.Fatal(err)
	}
	log := g.beta.Log()[before:]
	if !strings.Contains(log, "level=DEBUG") {
		t.Error("the agent says nothing at level debug, so this proves nothing")
	}
	hasNoSecret(t, "the log", log, value)
	if err := g.beta.AgentAlive(t.Context()); err != nil {
		t.Error(err)
	}
	g.eventuallyWhole(t, afterFault)
}

// A bundle of the whole group has the log of a pod, the rules, the events and all else, and no secret. The agents of the tests run in no
// pods: a Pod object and a server that stands in for its kubelet are how the API server gets at the log of one.
func TestNoSecretsInBundle(t *testing.T) {
	g := joined(t)
	g.cleanUp(t, "bundled")
	const value = "never-to-be-bundled-5e0c"
	if err := errors.Join(g.beta.KillAgent(), g.beta.StartAgent(t.Context(), "--log-level", "debug")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.beta.RestartAgent(lasting(t)); err != nil {
			t.Error(err)
		}
		g.eventuallyWhole(t, afterFault)
	})
	g.share(t, "bundled", value)
	eventually(t, "the Secret is in beta", within, hasCopy(g.beta, g.gamma, "bundled", value))
	podWithLog(t, g.beta, "agent-0")
	file := filepath.Join(t.TempDir(), "roster.tgz")
	args := []string{"bundle", "-o", file, "--force", "--context", "alpha", "--contexts", "beta,gamma"}
	// An API server asks nobody for metrics on its own machine, which is where this pod claims to be.
	eventually(t, "the bundle is written", within, g.asks(6, args, "of 3 clusters", "missing: cluster beta: pods/agent-0/agent.metrics: "))
	content := unpacked(t, file)
	for name, wants := range map[string][]string{
		"index.json": {"pods/agent-0/agent.metrics"}, "doctor.json": {"findings"}, "version.json": {"agents"},
		"members/alpha/rules.json": {"bundled"}, "members/beta/clusters.json": {"gamma"}, "members/gamma/version.json": {"gitVersion"},
		"members/gamma/events.json": {"items"}, "members/beta/pods.json": {"agent-0"}, "members/beta/pods/agent-0/agent.log": {"level=DEBUG", "the canary is [removed]"},
	} {
		for _, want := range wants {
			if !strings.Contains(content[name], want) {
				t.Errorf("%s lacks %q, so this proves nothing:\n%.500s", name, want, content[name])
			}
		}
	}
	for name, text := range content {
		hasNoSecret(t, name, text, value)
	}
	// With the credential that alpha has of beta neither Pods nor events are read, and the file says so.
	eventually(t, "what a peer may not read is named", within, g.asks(6, []string{"bundle", "-o", file, "--force", "--context", "alpha"},
		"of 3 clusters", "missing: cluster beta: pods, with logs and metrics: ", "missing: cluster gamma: events.json: "))
	hasNoSecret(t, "index.json", unpacked(t, file)["index.json"], value)
}

// unpacked is what the files of an archive hold, by their names.
func unpacked(t *testing.T, path string) map[string]string {
	t.Helper()
	content, err := harness.ReadArchive(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// podWithLog makes a Pod whose log is that of the cluster's agent, and a token that it should not have written.
func podWithLog(t *testing.T, c *harness.Cluster, name string) {
	t.Helper()
	kubelet := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/containerLogs/"+harness.Namespace+"/"+name+"/agent" {
			http.NotFound(w, r)
			return
		}
		log := c.Log()
		fmt.Fprint(w, log[max(0, len(log)-256<<10):], "the canary is eyJhbGciOiJub25lIn0.e30.x\n")
	}))
	t.Cleanup(kubelet.Close)
	at, err := url.Parse(kubelet.URL)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(at.Port())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.AddNode(t.Context(), name, "", "", "", nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		kubectl(t, c, "delete", "pod", name, "-n", harness.Namespace, "--force", "--grace-period=0")
		kubectl(t, c, "delete", "node", name)
	})
	patch := fmt.Sprintf(`{"status":{"addresses":[{"type":"InternalIP","address":"127.0.0.1"}],"daemonEndpoints":{"kubeletEndpoint":{"Port":%d}}}}`, port)
	if _, err := c.Kube.CoreV1().Nodes().Patch(t.Context(), name, "application/merge-patch+json", []byte(patch), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	apply(t, c, fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %[1]s, namespace: %[2]s, labels: {app.kubernetes.io/part-of: roster, app.kubernetes.io/component: agent}}
spec:
  nodeName: %[1]s
  automountServiceAccountToken: false
  containers: [{name: agent, image: none, ports: [{name: http, containerPort: 8080}]}]
`, name, harness.Namespace))
	running := `{"status":{"phase":"Running","podIP":"127.0.0.1","podIPs":[{"ip":"127.0.0.1"}]}}`
	if _, err := c.Kube.CoreV1().Pods(harness.Namespace).Patch(t.Context(), name, "application/merge-patch+json", []byte(running), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
}
