// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/e2e/documents"
	"github.com/roster-mesh/roster/e2e/harness"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

const release = "cluster-registry-controller"

// TestUpgrade: while Secrets are written and copied, the source's cluster and one with copies go to the chart and
// the image of the previous commit and back, and then roll back and forth once more.
func TestUpgrade(t *testing.T) {
	l := joined(t)
	version, err := l.version()
	must(t, err)
	chart, tag := l.previous(t)
	r := startSync(t, l, "upgraded")
	for _, m := range l.members()[:2] {
		began := time.Now()
		m.upgrade(t, chart, tag)
		eventually(t, m.Name+" with the previous commit, all three synced", afterFault, l.whole)
		must(t, m.runs(tag))
		m.upgrade(t, "charts/agent", version)
		eventually(t, m.Name+" with this commit, all three synced", afterFault, l.whole)
		must(t, m.runs(version))
		_, err := l.typed(t, m, documents.Upgrade, "helm rollback", "")
		must(t, err)
		eventually(t, m.Name+" rolled back, all three synced", afterFault, l.whole)
		must(t, m.runs(tag))
		m.upgrade(t, "charts/agent", version)
		progress("%s: three upgrades and a rollback in %.1f s", m.Name, time.Since(began).Seconds())
	}
	eventually(t, "all three synced", afterFault, l.whole)
	r.settle(t, afterFault)
	must(t, l.docs.Untyped("e2e/pods.TestUpgrade"))
}

// upgrade keeps the values that the release has, but for those that tell the place.
func (m *member) upgrade(t *testing.T, chart, tag string) {
	t.Helper()
	line := m.lab.block(t, documents.Upgrade, "Order", "helm upgrade", " charts/agent", " "+chart)
	_, err := m.lab.sh(shared.ctx, m, strings.TrimSpace(line)+" --set image.tag="+tag)
	must(t, err)
}

func (m *member) runs(tag string) error {
	p, err := m.pod(shared.ctx)
	// The chart leaves out what is usual.
	if err == nil && !strings.HasSuffix(repository+":"+tag, p.Spec.Containers[0].Image) {
		err = fmt.Errorf("%s runs the image %s, not %s", m.Name, p.Spec.Containers[0].Image, tag)
	}
	return err
}

// previous gives every node the image of the previous commit, and returns its chart. Where there is none, as in a
// shallow clone, this commit stands for it under another name.
func (l *lab) previous(t *testing.T) (chart, tag string) {
	t.Helper()
	tag = "previous"
	dir := filepath.Join(l.bin.Root, "e2e", "pods", "bin", tag)
	if _, err := os.Stat(filepath.Join(dir, "commit")); err != nil {
		t.Log("no previous commit was built: the upgrade is from this one to itself")
		must(t, l.load(shared.ctx, tag, l.bin.Agent))
		return l.bin.Chart, tag
	}
	must(t, l.load(shared.ctx, tag, filepath.Join(dir, "agent")))
	return filepath.Join(dir, "charts", "agent"), tag
}

// TestUninstall: what an uninstalled cluster keeps, and that it is the same member when it is installed again.
func TestUninstall(t *testing.T) {
	l := joined(t)
	r := startSync(t, l, "uninstalled")
	m := l.member(1)
	before, err := m.self(shared.ctx)
	must(t, err)
	key, err := m.secrets(shared.ctx, v1alpha1.PrivateNamespace(harness.Namespace))
	must(t, err)

	out, err := l.typed(t, m, documents.Uninstall, "helm uninstall", " --wait")
	must(t, err)
	t.Logf("helm uninstall says:\n%s", out)
	must(t, r.lost())
	after, err := m.self(shared.ctx)
	must(t, err)
	if before.uid != after.uid {
		t.Error("the Cluster object was made anew")
	}
	copies, err := m.secrets(shared.ctx, harness.Namespace)
	must(t, err)
	if _, found := copies["uninstalled-0"]; !found {
		t.Error("the copies went with the agent")
	}
	left, err := m.secrets(shared.ctx, v1alpha1.PrivateNamespace(harness.Namespace))
	must(t, err)
	for name, uid := range key {
		if left[name] != uid {
			t.Errorf("the private Secret %s went with the agent", name)
		}
	}
	_, err = m.Kube.AppsV1().Deployments(harness.Namespace).Get(shared.ctx, harness.ServiceAccount, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("the Deployment is still there: %v", err)
	}

	began := time.Now()
	_, err = l.sh(shared.ctx, m, m.install(t))
	must(t, err)
	eventually(t, "installed again, all three synced", afterFault, func(ctx context.Context) error {
		return errors.Join(m.ready(ctx), l.whole(ctx))
	})
	progress("%s: helm install again to Synced in all nine views %.1f s", m.Name, time.Since(began).Seconds())
	r.settle(t, afterFault)
	again, err := m.self(shared.ctx)
	must(t, err)
	if again != before {
		t.Errorf("the cluster is %+v; it was %+v", again, before)
	}
	must(t, l.docs.Untyped("e2e/pods.TestUninstall"))
}

// identity is what a cluster is known by.
type identity struct{ uid, clusterID string }

func (m *member) self(ctx context.Context) (identity, error) {
	u, err := m.Dynamic.Resource(harness.Clusters()).Get(ctx, m.Name, metav1.GetOptions{})
	if err != nil {
		return identity{}, err
	}
	spec, _ := u.Object["spec"].(map[string]any)
	return identity{uid: string(u.GetUID()), clusterID: fmt.Sprint(spec["clusterID"])}, nil
}

// secrets are the UIDs of those in a namespace, by name.
func (m *member) secrets(ctx context.Context, namespace string) (map[string]string, error) {
	list, err := m.Kube.CoreV1().Secrets(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	uids := map[string]string{}
	for _, s := range list.Items {
		uids[s.Name] = string(s.UID)
	}
	return uids, nil
}
