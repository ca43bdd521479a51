// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/e2e/documents"
	"github.com/roster-mesh/roster/e2e/harness"
)

// TestHelmTest runs the chart's own test: a pod that asks the agent and its mesh port through their Services.
func TestHelmTest(t *testing.T) {
	l := joined(t)
	for _, m := range l.members() {
		out, err := l.typed(t, m, documents.Chart, "helm test", " --timeout 2m")
		if err != nil || !strings.Contains(out, "members: 2 alive, 0 suspect, 0 failed") {
			t.Errorf("%s: %v\n%s", m.Name, err, out)
		}
	}
	must(t, l.docs.Untyped("e2e/pods.TestHelmTest"))
}

// TestDoctorInside runs agentctl doctor in a pod, with the agent's own rights.
func TestDoctorInside(t *testing.T) {
	l := joined(t)
	m := l.member(0)
	agent, err := m.pod(shared.ctx)
	must(t, err)
	mount := true
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "doctor", Namespace: harness.Namespace},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, ServiceAccountName: harness.ServiceAccount, AutomountServiceAccountToken: &mount,
			Containers: []corev1.Container{{
				Name: "doctor", Image: agent.Spec.Containers[0].Image, ImagePullPolicy: corev1.PullNever,
				Command: []string{"/agentctl", "doctor"},
			}},
		},
	}
	pods := m.Kube.CoreV1().Pods(harness.Namespace)
	_, err = pods.Create(shared.ctx, pod, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() { must(t, pods.Delete(context.WithoutCancel(shared.ctx), "doctor", metav1.DeleteOptions{})) })
	eventually(t, "the doctor has ended", within, func(ctx context.Context) error {
		p, err := pods.Get(ctx, "doctor", metav1.GetOptions{})
		if err == nil && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
			err = errors.New("it is " + string(p.Status.Phase))
		}
		return err
	})
	out, err := pods.GetLogs("doctor", &corev1.PodLogOptions{}).DoRaw(shared.ctx)
	must(t, err)
	if !strings.HasSuffix(strings.TrimSpace(string(out)), ": nothing found") {
		t.Errorf("in a group that is well it says:\n%s", out)
	}
}

// TestBundle: the file has all there is of a group whose agents run in pods, their logs and metrics among them.
func TestBundle(t *testing.T) {
	l := joined(t)
	file := filepath.Join(t.TempDir(), "roster.tgz")
	eventually(t, "a bundle that lacks nothing", within, func(ctx context.Context) error {
		out, err := l.Agentctl(ctx, "bundle", "--force", "-o", file, "--context", l.member(0).Name, "--contexts", l.member(1).Name+","+l.member(2).Name)
		if err == nil && !strings.Contains(out, " of 3 clusters, ") {
			err = errors.New("it prints " + out)
		}
		return err
	})
	content, err := harness.ReadArchive(file)
	must(t, err)
	for _, m := range l.members() {
		agent, err := m.pod(shared.ctx)
		must(t, err)
		folder := "members/" + m.Name + "/pods/" + agent.Name + "/"
		for name, want := range map[string]string{"agent.log": `"level":"INFO"`, "agent.metrics": "\nroster_mesh_members{state=\"Alive\"} 2\n"} {
			if !strings.Contains(content[folder+name], want) {
				t.Errorf("%s lacks %q:\n%.1000s", folder+name, want, content[folder+name])
			}
		}
	}
}

// TestHookUpgradesCRDs: helm upgrade runs the Job that brings CRDs up to the chart's, with no more than its own rights,
// and leaves nothing of it.
func TestHookUpgradesCRDs(t *testing.T) {
	l := joined(t)
	m := l.member(2)
	version, err := l.version()
	must(t, err)
	const crd, annotation = "clusters.clusterregistry.k8s.cisco.com", "cluster-registry.k8s.cisco.com/schema-version"
	schema := func() string {
		t.Helper()
		out, err := m.Kubectl(shared.ctx, "get", "crd", crd, `-o=jsonpath={.metadata.annotations.`+strings.ReplaceAll(annotation, ".", `\.`)+`}`)
		must(t, err)
		return out
	}
	before := schema()
	_, err = m.Kubectl(shared.ctx, "annotate", "--overwrite", "crd", crd, annotation+"=0")
	must(t, err)
	m.upgrade(t, "charts/agent", version)
	if after := schema(); after != before {
		t.Errorf("the CRD is of version %s, and was of %s", after, before)
	}
	left, err := m.Kubectl(shared.ctx, "get", "jobs,serviceaccounts,clusterroles,clusterrolebindings", "-A", "-l", "app.kubernetes.io/component=crds", "-o", "name")
	must(t, err)
	if left != "" {
		t.Errorf("the hook leaves %s", left)
	}
	eventually(t, "all three synced", afterFault, l.whole)
}
