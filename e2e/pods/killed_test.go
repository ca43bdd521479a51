// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/e2e/harness"
)

// TestEvictedPod: the API server evicts the pod, as a drain does. The new one begins with an empty disk.
func TestEvictedPod(t *testing.T) {
	l := joined(t)
	r := startSync(t, l, "evicted")
	for _, m := range l.members()[:2] { // of the source and of a copy
		old, err := m.pod(shared.ctx)
		must(t, err)
		must(t, m.Kube.CoreV1().Pods(harness.Namespace).EvictV1(shared.ctx, &policyv1.Eviction{
			ObjectMeta: metav1.ObjectMeta{Name: old.Name, Namespace: harness.Namespace},
		}))
		took := eventually(t, "another pod of "+m.Name+" Ready", afterFault, func(ctx context.Context) error {
			p, err := m.pod(ctx)
			if err == nil && p.UID == old.UID {
				err = errors.New("it is the old one")
			}
			return errors.Join(err, m.ready(ctx))
		})
		progress("%s: evicted pod to a new one Ready %.1f s", m.Name, took.Seconds())
	}
	r.settle(t, afterFault)
	eventually(t, "all three synced", afterFault, l.whole)
}

// TestKilledAgent: the kernel ends the agent, first as if by a crash, then for its memory. The kubelet starts it
// again in the same pod.
func TestKilledAgent(t *testing.T) {
	l := joined(t)
	r := startSync(t, l, "killed")
	for _, m := range l.members()[:2] {
		for reason, end := range map[string]func(*member) error{"Error": crash, "OOMKilled": outOfMemory} {
			before, err := m.pod(shared.ctx)
			must(t, err)
			must(t, end(m))
			took := eventually(t, "agent of "+m.Name+" started again after "+reason, afterFault, func(ctx context.Context) error {
				p, err := m.pod(ctx)
				if err != nil {
					return err
				}
				return errors.Join(restarted(before, p, reason), m.ready(ctx))
			})
			progress("%s: agent ended (%s) to Ready again %.1f s", m.Name, reason, took.Seconds())
		}
	}
	r.settle(t, afterFault)
	eventually(t, "all three synced", afterFault, l.whole)
}

// restarted: it is the same pod, with a container that followed one which ended for this reason.
func restarted(before, now *corev1.Pod, reason string) error {
	was, is := before.Status.ContainerStatuses[0], now.Status.ContainerStatuses[0]
	last := is.LastTerminationState.Terminated
	switch {
	case before.UID != now.UID:
		return fmt.Errorf("the pod is another one: %s", now.Name)
	case is.RestartCount <= was.RestartCount || last == nil:
		return errors.New("it did not start again")
	case last.Reason != reason:
		return fmt.Errorf("it ended for the reason %s", last.Reason)
	}
	return nil
}

func crash(m *member) error {
	pid, err := m.agentProcess(shared.ctx)
	if err != nil {
		return err
	}
	return syscall.Kill(pid, syscall.SIGKILL)
}

// hogging marks the process that takes a container's memory, and says how many bytes.
const hogging = "ROSTER_PODS_HOG"

// outOfMemory moves a process into the agent's container that takes memory until the kernel has to end one: the
// agent, since the kubelet marks what asked for little memory as the first to go.
func outOfMemory(m *member) error {
	p, err := m.pod(shared.ctx)
	if err != nil {
		return err
	}
	pid, err := m.agentProcess(shared.ctx)
	if err != nil {
		return err
	}
	cgroup, limit, err := m.node.MemoryCgroup(p.Status.ContainerStatuses[0].ContainerID)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(shared.ctx, within)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Stderr = os.Stderr
	cmd.Env = []string{hogging + "=" + strconv.Itoa(limit), "CGROUP=" + cgroup}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return err
	}
	_, err = harness.Wait(ctx, "the kernel ends the agent", within, func(context.Context) error {
		if err := syscall.Kill(pid, 0); err == nil {
			return errors.New("it runs")
		}
		return nil
	})
	// The container cannot be removed while a process is in it.
	cancel()
	cmd.Wait() //nolint:errcheck // It was killed.
	return err
}

// hog is the program that outOfMemory runs.
func hog() {
	bytes, err := strconv.Atoi(os.Getenv(hogging))
	if err != nil {
		return
	}
	if err := takeMemory(os.Getenv("CGROUP"), bytes); err != nil {
		fmt.Fprintln(os.Stderr, "pods: hog:", err)
		os.Exit(1)
	}
	time.Sleep(within) // what was waited for is that the kernel ends this program before
	os.Exit(0)
}

func takeMemory(cgroup string, bytes int) error {
	if err := os.WriteFile(filepath.Join(cgroup, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
		return err
	}
	memory, err := syscall.Mmap(-1, 0, bytes, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		return err
	}
	for i := 0; i < len(memory); i += os.Getpagesize() {
		memory[i] = 1
	}
	return nil
}
