// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/e2e/harness"
)

// agentStaysUp: what a person must fix is no end of the agent in a pod. It is one line in /readyz and in the log, and
// where the cluster's object can be written, in its status; and it is over as soon as it is fixed.
func agentStaysUp(t *testing.T, c *harness.Cluster) {
	used, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer used.Close()
	const binding = harness.ServiceAccount
	for _, test := range []struct {
		name   string
		flags  []string
		breaks func()
		want   string
		fixes  func()
		status bool
	}{
		{
			name: "the mesh port is taken", flags: []string{"--mesh-listen", used.Addr().String()},
			want: used.Addr().String(), fixes: func() { _ = used.Close() }, status: true,
		},
		{
			name:   "a right is missing",
			breaks: func() { kubectl(t, c, "delete", "rolebinding", binding, "-n", harness.Namespace) },
			want:   "may not get secrets in namespace " + harness.Namespace,
			fixes: func() {
				kubectl(t, c, "create", "rolebinding", binding, "-n", harness.Namespace, "--role="+binding, "--serviceaccount="+harness.Namespace+":"+harness.ServiceAccount)
			},
			status: true,
		},
		{
			name: "another cluster holds the name",
			breaks: func() {
				kubectl(t, c, "delete", "clusters.clusterregistry.k8s.cisco.com", "alpha")
				if _, err := c.Apply(t.Context(), `{"apiVersion":"clusterregistry.k8s.cisco.com/v1alpha1","kind":"Cluster","metadata":{"name":"alpha"},"spec":{"clusterID":"8f6b1a0e-63f4-4a0c-8ad5-0a9ad2b3c999"}}`); err != nil {
					t.Fatal(err)
				}
			},
			want:  "--cluster-name alpha: the Cluster object of that name belongs to clusterID 8f6b1a0e-63f4-4a0c-8ad5-0a9ad2b3c999",
			fixes: func() { kubectl(t, c, "delete", "clusters.clusterregistry.k8s.cisco.com", "alpha") },
			// The cluster has no status of its own then; doctor asks the pod, which there is none of here.
		},
	} {
		if err := c.StopAgent(); err != nil {
			t.Fatal(err)
		}
		if test.breaks != nil {
			test.breaks()
		}
		before, epoch := len(c.Log()), epochOf(t, c)
		// Without a disk, a start opens an epoch, and one that fails must not.
		if err := c.LaunchAgent(append(test.flags, "--keep-trying", "--data-dir=")...); err != nil {
			t.Fatal(err)
		}
		eventually(t, test.name+": it is not ready", notReady(c, test.want))
		if test.status {
			eventually(t, test.name+": the status says the same", func(context.Context) error {
				if status := kubectl(t, c, "get", "clusters.clusterregistry.k8s.cisco.com", "alpha", "-o=jsonpath={.status.message}"); !strings.Contains(status, test.want) {
					return fmt.Errorf("it says %q", status)
				}
				return nil
			})
		}
		if test.status {
			says(t, c, test.want)
		}
		test.fixes()
		eventually(t, test.name+": it is ready when that is fixed", c.AgentReady)
		if n := strings.Count(c.Log()[before:], `msg="not ready: the start failed"`); n != 1 {
			t.Errorf("%s: the log says so %d times", test.name, n)
		}
		if got := epochOf(t, c); got != epoch+1 {
			t.Errorf("%s: epoch %d became %d: a start that failed opened one", test.name, epoch, got)
		}
		eventually(t, test.name+": the status, too", func(context.Context) error {
			if state := kubectl(t, c, "get", "clusters.clusterregistry.k8s.cisco.com", "alpha", "-o=jsonpath={.status.message}"); state != "" {
				return fmt.Errorf("it says %q", state)
			}
			return nil
		})
	}
}

// says checks that status and doctor have the line that the agent has.
func says(t *testing.T, c *harness.Cluster, want string) {
	t.Helper()
	for _, command := range []string{"status", "doctor"} {
		if out, err := c.Agentctl(t.Context(), command); err == nil || !strings.Contains(out, want) {
			t.Errorf("agentctl %s does not say %q: %v\n%s", command, want, err, out)
		}
	}
}

// epochOf is the last epoch that an agent of the cluster opened.
func epochOf(t *testing.T, c *harness.Cluster) int {
	t.Helper()
	secret, err := c.Kube.CoreV1().Secrets(harness.Namespace+"-private").Get(t.Context(), "roster-identity", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	epoch, err := strconv.Atoi(string(secret.Data["epoch"]))
	if err != nil {
		t.Fatal(err)
	}
	return epoch
}

// threeInsteadOfOne: an agent that is alone and those of ha.enabled are never there at the same time.
func threeInsteadOfOne(t *testing.T, run func(args ...string) error) {
	upgrade := func(replicas, ha string) error {
		return run("upgrade", "roster", binaries(t).Chart, "--set", "localCluster.name=alpha,replicas="+replicas+",ha.enabled="+ha)
	}
	for _, step := range []struct{ replicas, ha, refused string }{
		{"1", "false", ""},
		{"1", "true", "ha.enabled=true cannot be changed while agents run"},
		{"0", "false", ""},
		{"1", "true", ""},
		{"1", "false", "ha.enabled=false cannot be changed while agents run"},
		{"0", "true", ""},
		{"0", "false", ""},
	} {
		err := upgrade(step.replicas, step.ha)
		if step.refused == "" && err != nil || step.refused != "" && (err == nil || !strings.Contains(err.Error(), step.refused)) {
			t.Fatalf("replicas=%s, ha.enabled=%s: %v; it should say %q", step.replicas, step.ha, err, step.refused)
		}
	}
}

// chartComesAndGoes: what helm leaves when it uninstalls is taken over when it installs again.
func chartComesAndGoes(t *testing.T, c *harness.Cluster) {
	ctx := t.Context()
	admin := adminOf(t, c)
	run := func(args ...string) string {
		t.Helper()
		out, err := helm(ctx, t, append(args, "-n", "elsewhere", "--kubeconfig", admin)...)
		if err != nil {
			t.Fatalf("helm %v: %v", args, err)
		}
		return out
	}
	kubectl(t, c, "delete", "clusterrole,clusterrolebinding,validatingadmissionpolicy,validatingadmissionpolicybinding", "-l", "app.kubernetes.io/part-of=roster")
	kubectl(t, c, "delete", "role,rolebinding", "-n", "default", "-l", "app.kubernetes.io/part-of=roster")
	chart := binaries(t).Chart
	out := run("install", "roster", chart, "--create-namespace", "--set", "localCluster.name=alpha,replicas=0")
	if !strings.Contains(out, "agentctl join") {
		t.Errorf("the notes do not name the next step:\n%s", out)
	}
	if _, err := c.Apply(ctx, "apiVersion: clusterregistry.k8s.cisco.com/v1alpha1\nkind: Cluster\nmetadata: {name: left}\nspec: {clusterID: 8f6b1a0e-63f4-4a0c-8ad5-0a9ad2b3c999}\n"); err != nil {
		t.Fatal(err)
	}
	run("upgrade", "roster", chart, "--set", "localCluster.name=alpha,replicas=0,mesh.service.type=NodePort")
	run("rollback", "roster", "1")
	threeInsteadOfOne(t, func(args ...string) error {
		_, err := helm(ctx, t, append(args, "-n", "elsewhere", "--kubeconfig", admin)...)
		return err
	})
	run("uninstall", "roster")
	for _, kept := range []string{"crd/" + crdOfClusters, "namespace/elsewhere-private", "namespace/elsewhere-readers", "clusters.clusterregistry.k8s.cisco.com/left"} {
		kubectl(t, c, "get", kept)
	}
	run("install", "roster", chart, "--set", "localCluster.name=alpha,replicas=0")
}
