// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/e2e/documents"
	"github.com/roster-mesh/roster/e2e/harness"
)

// bulkSecrets are written while agents end.
const bulkSecrets = 300

// TestThreeAgents: a cluster goes to three agents. During a bulk of new Secrets the leader's pod is deleted, and then a
// follower's, each with its volume; then two at once, after which the third is made the group. The cluster goes back to
// one agent in the end.
func TestThreeAgents(t *testing.T) {
	l := joined(t)
	m := l.member(1)
	r := startSync(t, l, "threefold")
	const values = "helm upgrade cluster-registry-controller charts/agent -n cluster-registry --reuse-values --set "
	_, err := l.typed(t, m, documents.Chart, values+"replicas=0", "")
	must(t, err)
	eventually(t, "no agent in "+m.Name, afterFault, func(ctx context.Context) error { return m.agents(ctx, 0) })
	t.Cleanup(func() {
		must(t, m.set("replicas=0"))
		eventually(t, "no agent in "+m.Name, afterFault, func(ctx context.Context) error { return m.agents(ctx, 0) })
		must(t, m.set("ha.enabled=false", "replicas=1"))
		eventually(t, "all three synced with one agent each", afterFault, l.whole)
	})
	began := time.Now()
	_, err = l.typed(t, m, documents.Chart, values+"replicas=1", "")
	must(t, err)
	eventually(t, "three agents in "+m.Name, afterFault, func(ctx context.Context) error { return m.agents(ctx, 3) })
	progress("%s: helm upgrade to three agents Ready %.1f s", m.Name, time.Since(began).Seconds())
	eventually(t, "all three synced", afterFault, l.whole)

	bulk, ctx := errgroup.WithContext(shared.ctx)
	bulk.Go(func() error {
		for i := range bulkSecrets {
			_, err := harness.Wait(ctx, "a Secret is written", afterFault, func(ctx context.Context) error {
				return r.write(ctx, syncedSecrets+i, "bulk")
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	leader, _ := m.roles(t)
	took := m.lose(t, leader)
	progress("%s: leader's pod deleted with its volume, to another leader %.1f s", m.Name, took.Seconds())
	eventually(t, "three agents again", afterFault, func(ctx context.Context) error { return m.agents(ctx, 3) })
	_, follower := m.roles(t)
	m.lose(t, follower)
	eventually(t, "three agents again", afterFault, func(ctx context.Context) error { return m.agents(ctx, 3) })
	must(t, bulk.Wait())
	m.loseQuorum(t)
	r.settle(t, afterFault)
	eventually(t, "all three synced", afterFault, l.whole)
	must(t, l.docs.Untyped("e2e/pods.TestThreeAgents"))
}

// loseQuorum deletes two agents with their volumes, keeps them from coming back until doctor says what to do, and does it.
func (m *member) loseQuorum(t *testing.T) {
	t.Helper()
	_, survivor := m.roles(t)
	all, err := m.agentPods(shared.ctx)
	must(t, err)
	_, err = m.Kubectl(shared.ctx, "cordon", survivor.Spec.NodeName)
	must(t, err)
	uncordon := func() {
		_, err := m.Kubectl(shared.ctx, "uncordon", survivor.Spec.NodeName)
		must(t, err)
	}
	t.Cleanup(uncordon)
	now := int64(0)
	for i := range all {
		if all[i].UID != survivor.UID {
			must(t, m.Kube.CoreV1().Pods(harness.Namespace).Delete(shared.ctx, all[i].Name, metav1.DeleteOptions{GracePeriodSeconds: &now}))
		}
	}
	const advice = "agentctl group recover --survivor"
	eventually(t, "the survivor and doctor say what to do", afterFault, func(ctx context.Context) error {
		out, err := m.lab.sh(ctx, m, "agentctl doctor || true")
		if err == nil && !strings.Contains(out, advice) {
			err = errors.New(out)
		}
		return err
	})
	typed, err := m.lab.docs.Lines(documents.HA, "agentctl group recover --dry-run", "agentctl group recover")
	must(t, err)
	eventually(t, "agentctl group recover", afterFault, func(ctx context.Context) error { // an agent says it after ten seconds
		out, err := m.lab.sh(ctx, m, typed)
		if err == nil {
			t.Logf("agentctl group recover says:\n%s", out)
		}
		return err
	})
	uncordon()
	eventually(t, "three agents again", afterFault, func(ctx context.Context) error { return m.agents(ctx, 3) })
}

// set changes values of the release.
func (m *member) set(values ...string) error {
	_, err := m.lab.sh(shared.ctx, m, fmt.Sprintf("helm upgrade --wait --timeout 3m --reset-then-reuse-values -n %s %s charts/agent --set %s",
		harness.Namespace, release, strings.Join(values, ",")))
	return err
}

// agents: so many pods of agents are there, all of them Ready.
func (m *member) agents(ctx context.Context, want int) error {
	pods, err := m.agentPods(ctx)
	if err != nil {
		return err
	}
	ready := 0
	for i := range pods {
		s := pods[i].Status
		if pods[i].DeletionTimestamp == nil && len(s.ContainerStatuses) == 1 && s.ContainerStatuses[0].Ready {
			ready++
		}
	}
	if len(pods) != want || ready != want {
		return fmt.Errorf("%d pods, %d of them ready", len(pods), ready)
	}
	return nil
}

func (m *member) agentPods(ctx context.Context) ([]corev1.Pod, error) {
	list, err := m.Kube.CoreV1().Pods(harness.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=agent"})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// roles waits until one agent says that it leads.
func (m *member) roles(t *testing.T) (leader, follower *corev1.Pod) {
	t.Helper()
	eventually(t, "one agent of "+m.Name+" leads", afterFault, func(ctx context.Context) (err error) {
		leader, follower, err = m.findRoles(ctx)
		return err
	})
	return leader, follower
}

func (m *member) findRoles(ctx context.Context) (leader, follower *corev1.Pod, err error) {
	pods, err := m.agentPods(ctx)
	if err != nil {
		return nil, nil, err
	}
	for i := range pods {
		page, err := m.Kube.CoreV1().Pods(harness.Namespace).ProxyGet("http", pods[i].Name, "8080", "/metrics", nil).DoRaw(ctx)
		switch {
		case err != nil: // it ends, or has not begun
		case strings.Contains(string(page), "\nroster_agents_leads 1\n"):
			leader = &pods[i]
		default:
			follower = &pods[i]
		}
	}
	if leader == nil || follower == nil {
		return nil, nil, errors.New("no agent leads, or none follows")
	}
	return leader, follower, nil
}

// lose deletes a pod at once, and with it its volume, and returns after how long another one leads.
func (m *member) lose(t *testing.T, p *corev1.Pod) time.Duration {
	t.Helper()
	now := int64(0)
	began := time.Now()
	must(t, m.Kube.CoreV1().Pods(harness.Namespace).Delete(shared.ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: &now}))
	eventually(t, "another agent than "+p.Name+" leads", afterFault, func(ctx context.Context) error {
		leader, _, err := m.findRoles(ctx)
		if err == nil && leader.UID == p.UID {
			err = errors.New("it is still there")
		}
		return err
	})
	return time.Since(began)
}
