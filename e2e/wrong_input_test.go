// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/e2e/harness"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// refusesWithin is how long an agent may try before it gives up on a wrong command line.
const refusesWithin = 20 * time.Second

// TestAgentRefuses: what is wrong with how an agent is started is one line that says what to do, and the
// end of that agent.
func TestAgentRefuses(t *testing.T) {
	g := joined(t)
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad")
	stranger := filepath.Join(dir, "stranger")
	nobody := filepath.Join(dir, "nobody")
	if err := os.WriteFile(bad, []byte("{{{"), 0o600); err != nil {
		t.Fatal(err)
	}
	foreign := filepath.Join(dir, "foreign")
	if err := os.Mkdir(foreign, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(foreign, "owner.json"), []byte(`{"clusterID":"8f6b1a0e","serverID":"s"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	token, err := g.delta.Token(t.Context(), "default", "default")
	if err != nil {
		t.Fatal(err)
	}
	for path, token := range map[string]string{stranger: "not-a-token", nobody: token} {
		if err := g.delta.WriteKubeconfig(path, token); err != nil {
			t.Fatal(err)
		}
	}
	used, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer used.Close()
	apply(t, g.delta, cluster("taken", "8f6b1a0e-63f4-4a0c-8ad5-0a9ad2b3c999", "", ""))
	t.Cleanup(func() { kubectl(t, g.delta, "delete", "cluster", "taken") })

	cases := map[string]struct {
		flags []string
		want  []string
	}{
		"no kubeconfig":              {[]string{"--kubeconfig", filepath.Join(dir, "none")}, []string{"kubeconfig", "no such file"}},
		"not a kubeconfig":           {[]string{"--kubeconfig", bad}, []string{"kubeconfig " + bad}},
		"token not accepted":         {[]string{"--kubeconfig", stranger}, []string{"credential not accepted", "kubeconfig"}},
		"account without rights":     {[]string{"--kubeconfig", nobody}, []string{"may not", "charts/agent"}},
		"namespace without rights":   {[]string{"--namespace", "elsewhere"}, []string{"--namespace elsewhere", "may not"}},
		"mesh port in use":           {[]string{"--mesh-listen", used.Addr().String()}, []string{used.Addr().String(), "in use"}},
		"http port in use":           {[]string{"--http-listen", used.Addr().String()}, []string{used.Addr().String(), "in use"}},
		"name of another cluster":    {[]string{"--cluster-name", "taken"}, []string{"--cluster-name taken", "8f6b1a0e-63f4-4a0c-8ad5-0a9ad2b3c999"}},
		"not an address":             {[]string{"--mesh-listen", "nowhere"}, []string{"--mesh-listen", "host:port"}},
		"data of another cluster":    {[]string{"--data-dir", foreign}, []string{"--data-dir " + foreign, "8f6b1a0e", "a directory of its own"}},
		"no room for data":           {[]string{"--data-dir", filepath.Join(bad, "data")}, []string{"--data-dir " + bad, "name a directory"}},
		"a flag that does not exist": {[]string{"--frobnicate"}, []string{"frobnicate"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			line := refusal(t, g.delta, c.flags)
			for _, want := range c.want {
				if !strings.Contains(line, want) {
					t.Errorf("it says %q, without %q", line, want)
				}
			}
		})
	}
	g.eventuallyWhole(t, within)
}

// refusal runs an agent with wrong flags to its end and returns the line that it ends with.
func refusal(t *testing.T, c *harness.Cluster, flags []string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), refusesWithin)
	defer cancel()
	bin, err := harness.FindBinaries()
	if err != nil {
		t.Fatal(err)
	}
	data := t.TempDir()
	cmd := exec.CommandContext(ctx, bin.Agent, append(append([]string{"run"}, c.AgentFlags()...), append([]string{"--data-dir", data}, flags...)...)...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	var exit *exec.ExitError
	if err := cmd.Run(); ctx.Err() != nil || !errors.As(err, &exit) {
		t.Fatalf("%v: %v\n%s", flags, errors.Join(ctx.Err(), err), &out)
	}
	if strings.Contains(out.String(), "goroutine ") {
		t.Fatalf("a stack trace is no explanation:\n%s", &out)
	}
	var said []string
	for line := range strings.Lines(out.String()) {
		if strings.HasPrefix(line, "agent: ") {
			said = append(said, strings.TrimSpace(line))
		} else if !strings.HasPrefix(line, "time=") {
			t.Errorf("neither a log line nor the reason: %q", line)
		}
	}
	if len(said) != 1 {
		t.Fatalf("it gives %d reasons, not one:\n%s", len(said), &out)
	}
	t.Log(said[0])
	return said[0]
}

// cluster is a Cluster object as somebody might write it by hand; secret "" means none.
func cluster(name, id, secret, server string) string {
	text := fmt.Sprintf("apiVersion: %s\nkind: Cluster\nmetadata:\n  name: %s\nspec:\n  clusterID: %s\n", v1alpha1.SchemeGroupVersion, name, id)
	if secret != "" {
		text += fmt.Sprintf("  authInfo:\n    secretRef:\n      name: %s\n      namespace: %s\n", secret, harness.Namespace)
	}
	if server != "" {
		text += fmt.Sprintf("  kubernetesApiEndpoints:\n  - serverAddress: %s\n", server)
	}
	return text
}

// TestClusterRefused: what is wrong with a pasted Cluster or Secret is one line in its status, and harms
// nothing else.
func TestClusterRefused(t *testing.T) {
	g := joined(t)
	good, err := get(t.Context(), g.beta, harness.Secrets(), harness.Namespace, g.beta.Name)
	if err != nil {
		t.Fatal(err)
	}
	ofBeta, _, _ := unstructured.NestedString(good.Object, "data", v1alpha1.SecretKubeconfigKey)
	secret := func(kind, field, value string) string {
		return fmt.Sprintf("apiVersion: v1\nkind: Secret\ntype: %s\nmetadata: {name: wrong, namespace: %s}\n%s: {kubeconfig: %q}\n", kind, harness.Namespace, field, value)
	}
	exec := "apiVersion: v1\nkind: Config\ncurrent-context: x\ncontexts: [{name: x, context: {cluster: x, user: x}}]\n" +
		"clusters: [{name: x, cluster: {server: \"https://127.0.0.1:1\"}}]\nusers: [{name: x, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: /bin/touch}}}]\n"
	cases := map[string]struct {
		manifest string
		state    v1alpha1.ClusterState
		want     string
	}{
		"no Secret":                         {cluster("wrong", newID(1), "wrong", ""), v1alpha1.ClusterStateMissingAuthInfo, "Secret"},
		"Secret of the wrong type":          {cluster("wrong", newID(2), "wrong", "") + "---\n" + secret("Opaque", "data", ofBeta), v1alpha1.ClusterStateInvalidAuthInfo, "type"},
		"kubeconfig that does not parse":    {cluster("wrong", newID(3), "wrong", "") + "---\n" + secret(v1alpha1.SecretType, "stringData", "{{{"), v1alpha1.ClusterStateInvalidAuthInfo, "kubeconfig"},
		"kubeconfig that runs a program":    {cluster("wrong", newID(4), "wrong", "") + "---\n" + secret(v1alpha1.SecretType, "stringData", exec), v1alpha1.ClusterStateInvalidAuthInfo, "kubeconfig"},
		"endpoint leads to another cluster": {cluster("wrong", newID(5), "wrong", "") + "---\n" + secret(v1alpha1.SecretType, "data", ofBeta), v1alpha1.ClusterStateFailed, "another cluster"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			apply(t, g.alpha, c.manifest)
			t.Cleanup(func() {
				kubectl(t, g.alpha, "delete", "cluster", "wrong")
				kubectl(t, g.alpha, "delete", "secret", "wrong", "-n", harness.Namespace, "--ignore-not-found")
				eventually(t, "it is gone", within, absent(g.alpha, harness.Clusters(), "", "wrong"))
			})
			eventually(t, "its status says what is wrong", within, func(ctx context.Context) error {
				u, err := get(ctx, g.alpha, harness.Clusters(), "", "wrong")
				if err != nil {
					return err
				}
				return says(u, c.state, c.want)
			})
			if err := absent(g.beta, harness.Clusters(), "", "wrong")(t.Context()); err != nil {
				t.Errorf("it spread: %v", err)
			}
			peersSynced(t, g)
		})
	}
	t.Run("second object for the same cluster", func(t *testing.T) { twin(t, g) })
	g.eventuallyWhole(t, within)
}

func newID(n int) string { return fmt.Sprintf("8f6b1a0e-63f4-4a0c-8ad5-00000000000%d", n) }

// says checks the state and that one line of the status explains it.
func says(u *unstructured.Unstructured, state v1alpha1.ClusterState, want string) error {
	got, _, _ := unstructured.NestedString(u.Object, "status", "state")
	text, _, _ := unstructured.NestedString(u.Object, "status", "message")
	if got != string(state) || !strings.Contains(text, want) || strings.Contains(text, "\n") {
		return fmt.Errorf("state %q with the message %q, not %q with %q", got, text, state, want)
	}
	return nil
}

// peersSynced: alpha's true peers are as they were.
func peersSynced(t *testing.T, g *group) {
	t.Helper()
	for _, c := range []*harness.Cluster{g.beta, g.gamma} {
		if err := synced(t.Context(), g.alpha, c); err != nil {
			t.Error(err)
		}
	}
}

// twin: two Cluster objects for alpha itself, which admission does not judge, are reported on both, until one is deleted.
func twin(t *testing.T, g *group) {
	id, err := g.alpha.ID(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	conflict := func(want bool, names ...string) func(context.Context) error {
		return func(ctx context.Context) error {
			for _, name := range names {
				u, err := get(ctx, g.alpha, harness.Clusters(), "", name)
				if err != nil {
					return err
				}
				if is := harness.ConditionTrue(u, v1alpha1.ConditionLocalConflict) == nil; is != want {
					return fmt.Errorf("cluster %s: LocalConflict is %v", name, is)
				}
			}
			return nil
		}
	}
	object := cluster("twin", id, "", "")
	for what, create := range map[string]func(){
		"made by the agent": func() {
			apply(t, g.alpha, object, "--as=system:serviceaccount:"+harness.Namespace+":"+harness.ServiceAccount)
		},
		"marked as a copy": func() {
			apply(t, g.alpha, strings.Replace(object, "  name: twin\n", "  name: twin\n  labels: {"+v1alpha1.LabelOwnerClusterID+": "+id+"}\n", 1))
		},
	} {
		create()
		eventually(t, "both objects show LocalConflict: "+what, within, conflict(true, "alpha", "twin"))
		kubectl(t, g.alpha, "delete", "cluster", "twin")
		eventually(t, "the conflict is over: "+what, within, conflict(false, "alpha"))
	}
}

// An edited copy of a Cluster is repaired and changes no trust; the agents talk on.
func TestEditedClusterIsRepaired(t *testing.T) {
	g := joined(t)
	before, err := get(t.Context(), g.alpha, harness.Clusters(), "", "beta")
	if err != nil {
		t.Fatal(err)
	}
	key, _, _ := unstructured.NestedString(before.Object, "spec", "mesh", "publicKey")
	kubectl(t, g.alpha, "patch", "cluster", "beta", "--type=merge", "-p",
		`{"spec":{"mesh":{"publicKey":"PUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw=","endpoints":["127.0.0.1:1"]}}}`)
	eventually(t, "the edited copy is as its origin has it", within, func(ctx context.Context) error {
		u, err := get(ctx, g.alpha, harness.Clusters(), "", "beta")
		if err != nil {
			return err
		}
		if now, _, _ := unstructured.NestedString(u.Object, "spec", "mesh", "publicKey"); now != key {
			return fmt.Errorf("publicKey is %s, not %s", now, key)
		}
		return nil
	})
	kubectl(t, g.alpha, "delete", "cluster", "beta")
	eventually(t, "the deleted copy is back", within, hasCluster(g.alpha, "beta"))
	kubectl(t, g.alpha, "delete", "cluster", "alpha")
	eventually(t, "a cluster's own object is back", within, hasCluster(g.alpha, "alpha"))
	g.eventuallyWhole(t, afterFault)
	g.cleanUp(t, "after-repair")
	g.share(t, "after-repair", "one")
}
