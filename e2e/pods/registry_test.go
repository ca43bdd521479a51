// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/e2e/documents"
	"github.com/roster-mesh/roster/e2e/harness"
)

// twoCallers are an account that may read every Cluster, and one that may read cluster-1.
const twoCallers = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: sees-all, namespace: default}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: sees-one, namespace: default}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: sees-all}
rules: [{apiGroups: [clusterregistry.k8s.cisco.com], resources: [clusters], verbs: [get, list, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: sees-one}
rules: [{apiGroups: [clusterregistry.k8s.cisco.com], resources: [clusters], resourceNames: [cluster-1], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: sees-all}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: sees-all}
subjects: [{kind: ServiceAccount, name: sees-all, namespace: default}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: sees-one}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: sees-one}
subjects: [{kind: ServiceAccount, name: sees-one, namespace: default}]
`

const registryPods = "app.kubernetes.io/component=registry-api"

// TestRegistryAPI installs the registry API with the commands of docs/registry-api.md. Each caller sees what he may see, also
// while an upgrade replaces its pods.
func TestRegistryAPI(t *testing.T) {
	l := joined(t)
	m := l.member(2)
	version, err := l.version()
	must(t, err)
	must(t, m.node.Import(shared.ctx, filepath.Join(l.bin.Root, "dist", "roster-apiserver-"+version+".tar")))
	before, err := m.revision(shared.ctx)
	must(t, err)
	t.Cleanup(func() { // the tests that follow upgrade to charts that may not know the values
		_, err := l.sh(context.WithoutCancel(shared.ctx), m, fmt.Sprintf("helm rollback --wait --timeout 3m -n %s %s %d", harness.Namespace, release, before))
		must(t, err)
	})
	_, err = m.Apply(shared.ctx, twoCallers)
	must(t, err)
	install := l.block(t, documents.RegistryAPI, "Behind Kubernetes", "registry.enabled=true")
	began := time.Now()
	_, err = l.sh(shared.ctx, m, install)
	must(t, err)
	progress("%s: the registry API is available %.1f s after helm upgrade began", m.Name, time.Since(began).Seconds())
	bundle := m.bundle(t)

	sees := func(account string, want ...string) {
		t.Helper()
		token, err := m.Token(shared.ctx, "default", account)
		must(t, err)
		config := filepath.Join(t.TempDir(), account)
		must(t, m.WriteKubeconfig(config, token))
		eventually(t, account+" sees "+strings.Join(want, ", "), within, func(ctx context.Context) error {
			out, err := m.Kubectl(ctx, "--kubeconfig", config, "get", "clusters.clusterregistry.k8s.io", "-o=jsonpath={.items[*].metadata.name}")
			if err == nil && !slices.Equal(strings.Fields(out), want) {
				err = fmt.Errorf("it sees %s", out)
			}
			return err
		})
	}
	sees("sees-all", "cluster-1", "cluster-2", "cluster-3")
	sees("sees-one", "cluster-1")
	short, err := m.Kubectl(shared.ctx, "get", "clusters", "-o", "name")
	must(t, err)
	if !strings.HasPrefix(short, "cluster.clusterregistry.k8s.cisco.com/") {
		t.Errorf("kubectl get clusters shows %s", short)
	}

	m.quietly(t, func() {
		_, err := l.sh(shared.ctx, m, "helm upgrade --wait --timeout 3m --reset-then-reuse-values -n "+harness.Namespace+" "+release+
			" charts/agent --set registry.resources.requests.cpu=60m")
		must(t, err)
	})
	if m.bundle(t) != bundle {
		t.Error("the upgrade changed the CA")
	}
	sees("sees-one", "cluster-1")
	m.reportRegistry(t)
	must(t, l.docs.Untyped("e2e/pods.TestRegistryAPI"))
}

// revision is the release's last one.
func (m *member) revision(ctx context.Context) (int, error) {
	out, err := m.lab.sh(ctx, m, "helm history -o json -n "+harness.Namespace+" "+release)
	if err != nil {
		return 0, err
	}
	var all []struct{ Revision int }
	if err := json.Unmarshal([]byte(out), &all); err != nil || len(all) == 0 {
		return 0, fmt.Errorf("helm history: %w: %s", err, out)
	}
	return all[len(all)-1].Revision, nil
}

func (m *member) bundle(t *testing.T) string {
	t.Helper()
	out, err := m.Kubectl(shared.ctx, "get", "apiservice", "v1alpha1.clusterregistry.k8s.io", "-o=jsonpath={.spec.caBundle}")
	must(t, err)
	return out
}

// quietly lists Clusters by the registry API while something is done that replaces all of its pods; none of the lists may fail.
func (m *member) quietly(t *testing.T, do func()) {
	t.Helper()
	names := func() []string {
		pods, err := m.Kube.CoreV1().Pods(harness.Namespace).List(shared.ctx, metav1.ListOptions{LabelSelector: registryPods})
		must(t, err)
		var out []string
		for _, p := range pods.Items {
			if p.DeletionTimestamp == nil {
				out = append(out, p.Name)
			}
		}
		return out
	}
	before := names()
	done, ended := make(chan struct{}), make(chan struct{})
	lists, failed := 0, []error(nil)
	clusters := m.Dynamic.Resource(schema.GroupVersionResource{Group: "clusterregistry.k8s.io", Version: "v1alpha1", Resource: "clusters"})
	go func() {
		defer close(ended)
		for tick := time.NewTicker(50 * time.Millisecond); ; lists++ {
			if _, err := clusters.List(shared.ctx, metav1.ListOptions{}); err != nil {
				failed = append(failed, err)
			}
			select {
			case <-done:
				return
			case <-tick.C:
			}
		}
	}()
	do()
	close(done)
	<-ended
	for _, name := range names() {
		if slices.Contains(before, name) {
			t.Errorf("the upgrade did not replace pod %s", name)
		}
	}
	progress("%s: %d of %d lists by the registry API failed while its pods were replaced", m.Name, len(failed), lists)
	if len(failed) > 0 {
		t.Errorf("the first of %d: %v", len(failed), failed[0])
	}
}

// reportRegistry says how much memory the servers take.
func (m *member) reportRegistry(t *testing.T) {
	t.Helper()
	pods, err := m.Kube.CoreV1().Pods(harness.Namespace).List(shared.ctx, metav1.ListOptions{LabelSelector: registryPods})
	must(t, err)
	for _, p := range pods.Items {
		if p.DeletionTimestamp != nil {
			continue
		}
		pids, err := m.node.Processes(p.Status.ContainerStatuses[0].ContainerID)
		must(t, err)
		for _, pid := range pids {
			memory, err := harness.ReadMemory(pid)
			must(t, err)
			progress("%s: a server of the registry API in its pod: resident %d MiB, peak %d MiB", m.Name, memory.Resident>>20, memory.Peak>>20)
		}
	}
}
