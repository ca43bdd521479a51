// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/e2e/documents"
	"github.com/roster-mesh/roster/e2e/harness"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// useIt is a heading of README.md.
const useIt = "Use it"

// TestReadme is README.md's "Use it", with the commands of its own text, in three clusters. Only what is different in
// every place is added: where the image is, and the address of the mesh port.
func TestReadme(t *testing.T) {
	l := joined(t)
	// Steps build on each other: after a failure the rest would only say the same again.
	step := func(name string, do func(*testing.T)) {
		if !t.Failed() {
			t.Run(name, do)
		}
	}
	step("look at the group", func(t *testing.T) {
		look := l.block(t, documents.Readme, useIt, "kubectl get clusters")
		for _, m := range l.members() {
			out, err := l.sh(shared.ctx, m, look)
			must(t, err)
			for _, other := range l.members() {
				if !strings.Contains(out, other.Name) {
					t.Errorf("in %s the commands do not show %s:\n%s", m.Name, other.Name, out)
				}
			}
			t.Logf("in %s:\n%s", m.Name, out)
		}
	})
	step("say what is copied", func(t *testing.T) {
		rule, err := l.docs.Block(documents.Readme, useIt, "yaml", "kind: ResourceSyncRule")
		must(t, err)
		_, err = l.Clusters[0].Apply(shared.ctx, rule)
		must(t, err)
		_, err = l.sh(shared.ctx, nil, l.block(t, documents.Readme, useIt, "create secret generic test-secret"))
		must(t, err)
		look := l.block(t, documents.Readme, useIt, "get secret test-secret")
		eventually(t, "the copy, by the README's command", within, func(ctx context.Context) error {
			_, err := l.sh(ctx, nil, look)
			return err
		})
		for _, m := range l.members()[1:] {
			eventually(t, "a marked copy in "+m.Name, within, copied(m, l.member(0), "test-secret"))
		}
	})
	step("take it back", func(t *testing.T) {
		_, err := l.Clusters[0].Kubectl(shared.ctx, "-n", harness.Namespace, "delete", "secret", "test-secret")
		must(t, err)
		for _, m := range l.members()[1:] {
			eventually(t, "no copy in "+m.Name, within, func(ctx context.Context) error { return gone(ctx, m, "test-secret") })
		}
		_, err = l.Clusters[0].Kubectl(shared.ctx, "delete", "resourcesyncrule", "test-secret-sink")
		must(t, err)
	})
	must(t, l.docs.Untyped("e2e/pods.TestReadme"))
}

// TestDNS: the chart's Services have names in the cluster, and the probes' port answers behind them.
func TestDNS(t *testing.T) {
	l := joined(t)
	for _, m := range l.members() {
		resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "udp", net.JoinHostPort(m.node.DNS(), "53"))
		}}
		eventually(t, "the agent's Service by its name in "+m.Name, within, func(ctx context.Context) error {
			addresses, err := resolver.LookupHost(ctx, harness.ServiceAccount+"."+harness.Namespace+".svc.cluster.local")
			if err != nil {
				return err
			}
			body, err := m.httpGet(ctx, "http://"+net.JoinHostPort(addresses[0], "8080")+"/metrics")
			if err == nil && !strings.Contains(body, "roster_") {
				err = errors.New("its metrics are not Roster's")
			}
			return err
		})
	}
}

// joined returns the three clusters with an agent in each, which know each other: installed and joined by README.md,
// and the third one by hand, as README.md and docs/groups.md say with the same words.
func joined(t *testing.T) *lab {
	t.Helper()
	l := clusters(t)
	shared.join.Do(func() {
		began := time.Now()
		for _, m := range l.members() {
			began := time.Now()
			_, err := l.sh(shared.ctx, m, m.install(t))
			must(t, err)
			eventually(t, "agent of "+m.Name+" Ready", afterFault, m.ready)
			took := time.Since(began)
			eventually(t, m.Name+" describes itself", within, func(ctx context.Context) error { return synced(ctx, m, m) })
			progress("%s: helm install to pod Ready %.1f s, to Synced %.1f s", m.Name, took.Seconds(), time.Since(began).Seconds())
		}
		swap := time.Now()
		_, err := l.sh(shared.ctx, nil, l.block(t, documents.Readme, useIt, "agentctl join"))
		must(t, err)
		progress("agentctl join of two clusters %.1f s", time.Since(swap).Seconds())
		swap = time.Now()
		byHand := l.block(t, documents.Readme, useIt, "get secret cluster-2")
		if same := l.block(t, documents.Groups, "Join", "get secret cluster-2"); same != byHand {
			t.Errorf("README.md and docs/groups.md swap differently by hand:\n%s\n%s", byHand, same)
		}
		_, err = l.sh(shared.ctx, nil, strings.ReplaceAll(byHand, "cluster-2", "cluster-3"))
		must(t, err)
		eventually(t, "three clusters synced with each other", afterFault, l.whole)
		progress("swap by hand of a third, to Synced in all nine views %.1f s; all since the first helm install %.1f s",
			time.Since(swap).Seconds(), time.Since(began).Seconds())
		for _, m := range l.members() {
			memory, err := m.memory(shared.ctx)
			must(t, err)
			progress("%s: agent in its pod: resident %d MiB, of it allocated %d MiB, peak %d MiB",
				m.Name, memory.Resident>>20, memory.Anonymous>>20, memory.Peak>>20)
		}
	})
	eventually(t, "three clusters synced with each other", afterFault, l.whole)
	return l
}

// block is that with a text in a section of a document. Of words, each followed by another one, the second is what is there here.
func (l *lab) block(t *testing.T, document, heading, text string, words ...string) string {
	t.Helper()
	block, err := l.docs.With(words...).Block(document, heading, "sh", text)
	must(t, err)
	return block
}

// install are the commands by which README.md installs an agent.
func (m *member) install(t *testing.T) string {
	t.Helper()
	return m.lab.block(t, documents.Readme, useIt, "helm install", "cluster-1", m.Name)
}

// typed runs the one command of a document that begins like this, in a member, with what is different here behind it.
func (l *lab) typed(t *testing.T, m *member, document, begins, here string) (string, error) {
	t.Helper()
	line, err := l.docs.Lines(document, begins)
	must(t, err)
	return l.sh(shared.ctx, m, line+here)
}

// whole: every cluster says of every other, and of itself, that it is synced.
func (l *lab) whole(ctx context.Context) error {
	for _, at := range l.members() {
		for _, of := range l.members() {
			if err := synced(ctx, at, of); err != nil {
				return fmt.Errorf("in %s: %w", at.Name, err)
			}
		}
	}
	return nil
}

func synced(ctx context.Context, at, of *member) error {
	u, err := at.Dynamic.Resource(harness.Clusters()).Get(ctx, of.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	return harness.ConditionTrue(u, "ClustersSynced")
}

// ready: the Deployment as it is now is rolled out, with one pod that is Ready.
func (m *member) ready(ctx context.Context) error {
	d, err := m.Kube.AppsV1().Deployments(harness.Namespace).Get(ctx, harness.ServiceAccount, metav1.GetOptions{})
	if err != nil {
		return err
	}
	p, err := m.pod(ctx)
	if err != nil {
		return err
	}
	// The Deployment's own count lags behind the end of a pod or a container.
	if !p.Status.ContainerStatuses[0].Ready {
		return fmt.Errorf("pod %s is not ready", p.Name)
	}
	return rolledOut(d)
}

func rolledOut(d *appsv1.Deployment) error {
	s := d.Status
	if s.ObservedGeneration != d.Generation || s.ReadyReplicas != 1 || s.UpdatedReplicas != 1 || s.Replicas != 1 {
		return fmt.Errorf("the Deployment has %d pods, %d of them new, %d ready", s.Replicas, s.UpdatedReplicas, s.ReadyReplicas)
	}
	return nil
}

// pod is the agent's pod; those that end are left out.
func (m *member) pod(ctx context.Context) (*corev1.Pod, error) {
	pods, err := m.Kube.CoreV1().Pods(harness.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=agent"})
	if err != nil {
		return nil, err
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		if p.DeletionTimestamp == nil && p.Status.Phase == corev1.PodRunning && len(p.Status.ContainerStatuses) == 1 {
			return p, nil
		}
	}
	return nil, fmt.Errorf("no pod of the agent runs in %s", m.Name)
}

func (m *member) memory(ctx context.Context) (harness.Memory, error) {
	pid, err := m.agentProcess(ctx)
	if err != nil {
		return harness.Memory{}, err
	}
	return harness.ReadMemory(pid)
}

// agentProcess is the agent's process id on this machine.
func (m *member) agentProcess(ctx context.Context) (int, error) {
	p, err := m.pod(ctx)
	if err != nil {
		return 0, err
	}
	pids, err := m.node.Processes(p.Status.ContainerStatuses[0].ContainerID)
	if err == nil && len(pids) != 1 {
		err = fmt.Errorf("the agent's container has %d processes, not one", len(pids))
	}
	if err != nil {
		return 0, err
	}
	return pids[0], nil
}

// copied: the Secret is there as a copy of owner's.
func copied(m, owner *member, name string) func(context.Context) error {
	return func(ctx context.Context) error {
		id, err := owner.ID(ctx)
		if err != nil {
			return err
		}
		s, err := m.Kube.CoreV1().Secrets(harness.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil && s.Annotations[v1alpha1.AnnotationOwnerClusterID] != id {
			err = fmt.Errorf("%s in %s is not marked as a copy of %s", name, m.Name, owner.Name)
		}
		return err
	}
}
