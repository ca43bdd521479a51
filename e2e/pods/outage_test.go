// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/roster-mesh/roster/e2e/harness"
)

// TestReboot: the node of a copy and then that of the source loses power and comes back with its disk.
func TestReboot(t *testing.T) {
	l := joined(t)
	r := startSync(t, l, "rebooted")
	for _, i := range []int{1, 0} {
		m, other := l.member(i), l.member(2)
		must(t, m.node.Crash(shared.ctx))
		eventually(t, m.Name+" is seen to be away by "+other.Name, afterFault, func(ctx context.Context) error {
			if synced(ctx, other, m) == nil {
				return fmt.Errorf("%s says that it is synced", other.Name)
			}
			return nil
		})
		began := time.Now()
		must(t, m.node.Boot(shared.ctx))
		booted := time.Since(began)
		// What the API server says of pods and clusters is from before the crash until somebody writes it anew.
		eventually(t, "agent of "+m.Name+" runs", afterFault, func(ctx context.Context) error {
			_, err := m.agentProcess(ctx)
			return err
		})
		eventually(t, "all three synced", afterFault, l.whole)
		progress("%s: boot to node Ready %.1f s, to Synced in all nine views %.1f s", m.Name, booted.Seconds(), time.Since(began).Seconds())
	}
	r.settle(t, afterFault)
}

// partitionEnv is how long TestPartition cuts a cluster off, such as 5m. It is short by default.
const (
	partitionEnv     = "ROSTER_PODS_PARTITION"
	partitionDefault = 30 * time.Second
)

// TestPartition: nobody reaches the third cluster for a while; what is written on both sides meets afterwards.
func TestPartition(t *testing.T) {
	l := joined(t)
	whole := partitionDefault
	if text := os.Getenv(partitionEnv); text != "" {
		var err error
		if whole, err = time.ParseDuration(text); err != nil {
			t.Fatalf("%s: %v", partitionEnv, err)
		}
	}
	r := startSync(t, l, "parted")
	far := l.member(2)
	must(t, far.node.Cut(shared.ctx))
	t.Cleanup(func() { must(t, far.node.Heal(shared.ctx)) })
	began := time.Now()
	// Only its own console reaches its API server now.
	_, err := far.node.Kubectl(shared.ctx, "-n", harness.Namespace, "create", "secret", "generic", "written-apart")
	must(t, err)
	_, err = l.Clusters[0].Apply(shared.ctx, secretRule("written-apart"))
	must(t, err)
	t.Cleanup(func() { forget(t, l, far, "written-apart") })
	must(t, harness.Stays(shared.ctx, "no copy is lost while a cluster is away", time.Until(began.Add(whole)), func(context.Context) error {
		return r.lost()
	}))
	_, err = far.node.Kubectl(shared.ctx, "-n", harness.Namespace, "get", "secret", "parted-0")
	must(t, err)
	must(t, far.node.Heal(shared.ctx))
	healed := time.Now()
	eventually(t, "what was written apart arrives", afterFault, copied(l.member(0), far, "written-apart"))
	eventually(t, "all three synced", afterFault, l.whole)
	progress("%s: after %s apart, heal to Synced in all nine views %.1f s", far.Name, whole, time.Since(healed).Seconds())
	r.settle(t, afterFault)
}

func secretRule(name string) string {
	return fmt.Sprintf(`apiVersion: clusterregistry.k8s.cisco.com/v1alpha1
kind: ResourceSyncRule
metadata: {name: %[1]s}
spec:
  groupVersionKind: {version: v1, kind: Secret}
  rules:
  - match:
    - objectKey: {name: %[1]s, namespace: %[2]s}
`, name, harness.Namespace)
}

// forget deletes a Secret where it comes from, and the rule for it when its copies are gone.
func forget(t *testing.T, l *lab, owner *member, name string) {
	t.Helper()
	_, err := owner.Kubectl(shared.ctx, "-n", harness.Namespace, "delete", "secret", name)
	must(t, err)
	for _, m := range l.members() {
		eventually(t, "no "+name+" in "+m.Name, afterFault, func(ctx context.Context) error { return gone(ctx, m, name) })
	}
	_, err = l.Clusters[0].Kubectl(shared.ctx, "delete", "resourcesyncrule", name)
	must(t, err)
}
