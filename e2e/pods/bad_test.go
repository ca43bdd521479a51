// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/e2e/documents"
	"github.com/roster-mesh/roster/e2e/harness"
)

// TestNameIsTaken: the chart is installed under the name of a Cluster object that is another cluster's. So there is no
// object of this cluster in whose status that could stand: the pod stays up, is not ready, and its log and
// agentctl doctor say the same line. It comes first, while no agent is installed yet.
func TestNameIsTaken(t *testing.T) {
	l := clusters(t)
	m := l.member(2)
	deployments := m.Kube.AppsV1().Deployments(harness.Namespace)
	if _, err := deployments.Get(shared.ctx, harness.ServiceAccount, metav1.GetOptions{}); err == nil {
		t.Skip("the agents are installed already: run it alone, or before the others")
	}
	_, err := m.Kubectl(shared.ctx, "apply", "--server-side", "-f", l.bin.Chart+"/crds")
	must(t, err)
	_, err = m.Kubectl(shared.ctx, "wait", "--for=condition=Established", "--timeout=60s", "crd/clusters.clusterregistry.k8s.cisco.com")
	must(t, err)
	_, err = m.Apply(shared.ctx, fmt.Sprintf("apiVersion: clusterregistry.k8s.cisco.com/v1alpha1\nkind: Cluster\nmetadata: {name: %s}\nspec: {clusterID: 0b7a1a3e-13f0-4f9c-8ad5-0a9ad2b3c111}\n", m.Name))
	must(t, err)
	_, err = l.sh(shared.ctx, m, m.install(t))
	must(t, err)
	line := ""
	eventually(t, "the log says why the agent is not ready", within, func(ctx context.Context) (err error) {
		line, err = m.whyNotReady(ctx)
		return err
	})
	if !strings.Contains(line, "--cluster-name "+m.Name) || !strings.Contains(line, "choose another name") {
		t.Errorf("the log says %s", line)
	}
	if out, err := l.typed(t, m, documents.Chart, "kubectl -n cluster-registry logs", ""); err != nil || !strings.Contains(out, "choose another name") {
		t.Errorf("the command of the chart's README (%v) shows:\n%s", err, out)
	}
	out, err := l.sh(shared.ctx, m, "agentctl doctor")
	if err == nil || !strings.Contains(out, line) {
		t.Errorf("agentctl doctor (%v) does not say %q:\n%s", err, line, out)
	}
	t.Logf("agentctl doctor says:\n%s", out)
	p, err := m.pod(shared.ctx)
	must(t, err)
	if c := p.Status.ContainerStatuses[0]; c.Ready || c.RestartCount > 0 {
		t.Errorf("the pod is ready: %t; it was started again %d times", c.Ready, c.RestartCount)
	}
	_, err = m.Kubectl(shared.ctx, "delete", "cluster", m.Name)
	must(t, err)
	eventually(t, "Ready once the name is free", within, m.ready)
	_, err = l.sh(shared.ctx, m, "helm uninstall --wait -n "+harness.Namespace+" "+release)
	must(t, err, l.docs.Untyped("e2e/pods.TestNameIsTaken"))
}

// whyNotReady is the last line about it in the log of the agent's pod.
func (m *member) whyNotReady(ctx context.Context) (string, error) {
	p, err := m.pod(ctx)
	if err != nil {
		return "", err
	}
	log, err := m.Kube.CoreV1().Pods(harness.Namespace).GetLogs(p.Name, &corev1.PodLogOptions{}).DoRaw(ctx)
	if err != nil {
		return "", err
	}
	said := ""
	for text := range strings.Lines(string(log)) {
		var record struct{ Msg, Error string }
		if json.Unmarshal([]byte(text), &record) == nil && strings.HasPrefix(record.Msg, "not ready") {
			said = record.Error
		}
	}
	if said == "" {
		return "", errors.New("it says nothing")
	}
	return said, nil
}
