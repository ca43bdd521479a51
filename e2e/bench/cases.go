// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roster-mesh/roster/e2e/harness"
)

var errThere = errors.New("it is there")

const (
	mergePatch = types.MergePatchType
	// wayLate is the way of objects in a namespace that a target does not have.
	wayLate       = way("late")
	lateNamespace = "bench-late"
	// lateRights let agents read and write Secrets there, too.
	lateRights = `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: bench-late
  labels:
    cluster-registry.k8s.cisco.com/controller-aggregated: "true"
    cluster-registry.k8s.cisco.com/reader-aggregated: "true"
rules:
- {apiGroups: [""], resources: [secrets], verbs: ["*"]}
`
)

func patchOptions() metav1.PatchOptions { return metav1.PatchOptions{} }

// cases are what single users meet: each is measured once.
func cases(ctx context.Context, b *bed) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l, err := newLap(ctx, b)
	if err != nil {
		return err
	}
	for _, c := range []struct {
		name string
		run  func(context.Context, *lap) error
	}{
		{"restart", restart}, {"large", large}, {"storm", storm}, {"late", late},
	} {
		b.log("%d clusters: cases: %s", b.n, c.name)
		if err := c.run(ctx, l); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return nil
}

// restart kills the agent of the target, changes what it copied on both sides, and starts it again.
func restart(ctx context.Context, l *lap) error {
	const each = 10
	names := func(what string) (out []string) {
		for i := range each {
			out = append(out, fmt.Sprintf("restart-%s-%d", what, i))
		}
		return out
	}
	all := append(append(names("update"), names("delete")...), names("tamper")...)
	began := time.Now()
	for _, name := range all {
		if err := l.source.do(ctx, create, wayRoster, name, "old"); err != nil {
			return err
		}
	}
	for _, name := range all {
		if _, err := l.atTarget.await(ctx, sight{create.event(), name, "old"}, began); err != nil {
			return err
		}
	}
	target := l.b.first()
	if err := target.KillAgent(); err != nil {
		return err
	}
	var want []sight
	for i := range each {
		gone, changed, fresh, wrong := names("delete")[i], names("update")[i], names("create")[i], names("tamper")[i]
		want = append(want, sight{kind: remove.event(), name: gone}, sight{update.event(), changed, "new"},
			sight{create.event(), fresh, "new"}, sight{update.event(), wrong, "old"})
		err := errors.Join(l.source.do(ctx, remove, wayRoster, gone, ""), l.source.do(ctx, update, wayRoster, changed, "new"),
			l.source.do(ctx, create, wayRoster, fresh, "new"), l.tamper(ctx, wrong))
		if err != nil {
			return err
		}
	}
	began = time.Now()
	if err := target.LaunchAgent(); err != nil {
		return err
	}
	var took time.Duration
	for _, s := range want {
		at, err := l.atTarget.await(ctx, s, began)
		if err != nil {
			return err
		}
		took = max(took, at.Sub(began))
	}
	l.b.add("restart until everything missed is repaired", took.Seconds(), "s", atMost(0.8),
		fmt.Sprintf("from the start of the process; %d created, changed, deleted at the source, changed at the target", each))
	return l.sweep(ctx, append(append(names("update"), names("create")...), names("tamper")...))
}

// large objects arrive.
func large(ctx context.Context, l *lap) error {
	for _, kib := range []int{500, 1000} {
		name := fmt.Sprintf("large-%d", kib)
		s := secret(wayRoster, name, "large")
		s.Data["filler"] = []byte(strings.Repeat("x", kib<<10-1024))
		began := time.Now()
		if _, err := l.source.secrets.Create(ctx, s, metav1.CreateOptions{}); err != nil {
			return err
		}
		at, err := l.atTarget.await(ctx, sight{create.event(), name, "large"}, began)
		if err != nil {
			return err
		}
		l.b.add(fmt.Sprintf("object of %d KiB arrives after", kib), at.Sub(began).Seconds(), "s", atMost(5), "the budget is that it does")
		if err := l.sweep(ctx, []string{name}); err != nil {
			return err
		}
	}
	return nil
}

// storm updates one object 40 times in 2 s.
func storm(ctx context.Context, l *lap) error {
	const name, updates, every = "storm", 40, 50 * time.Millisecond
	if err := l.source.do(ctx, create, wayRoster, name, "0"); err != nil {
		return err
	}
	began := time.Now()
	for i := range updates {
		if err := l.source.do(ctx, update, wayRoster, name, strconv.Itoa(i+1)); err != nil {
			return err
		}
		if err := pause(ctx, time.Until(began.Add(time.Duration(i+1)*every))); err != nil {
			return err
		}
	}
	changed := time.Now().Add(-every) // the last update
	at, err := l.atTarget.await(ctx, sight{update.event(), name, strconv.Itoa(updates)}, began)
	if err != nil {
		return err
	}
	l.b.add("40 updates of one object in 2 s: converged after", max(0, at.Sub(changed)).Seconds(), "s", atMost(1), "")
	return l.sweep(ctx, []string{name})
}

// late creates the namespace that a copy waits for.
func late(ctx context.Context, l *lap) error {
	b := l.b
	namespace := func(c *harness.Cluster) error {
		_, err := c.Kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: lateNamespace}}, metav1.CreateOptions{})
		return err
	}
	for _, c := range b.fleet.Clusters {
		if _, err := c.Apply(ctx, lateRights); err != nil {
			return err
		}
	}
	if err := namespace(b.source()); err != nil {
		return err
	}
	if _, err := b.source().Kube.CoreV1().Secrets(lateNamespace).Create(ctx, secret(wayLate, "late", "late"), metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := b.createRule(ctx, lateRule()); err != nil {
		return err
	}
	if err := b.awaitProblem(ctx, "bench-late", "NamespaceMissing"); err != nil {
		return err
	}
	copied, err := b.first().Watch(ctx, harness.Secrets(), lateNamespace, "late")
	if err != nil {
		return err
	}
	began := time.Now()
	if err := namespace(b.first()); err != nil {
		return err
	}
	s, err := copied.Until(ctx, "copied", within, harness.Present)
	if err != nil {
		return err
	}
	b.add("missing namespace created: copy after", s.At.Sub(began).Seconds(), "s", atMost(1), "")
	return b.deleteRule(ctx, wayLate)
}

// awaitProblem waits until the rule in the first cluster names a problem.
func (b *bed) awaitProblem(ctx context.Context, name, problem string) error {
	_, err := harness.Wait(ctx, problem+" in the status of "+name, within, func(ctx context.Context) error {
		u, err := b.first().Dynamic.Resource(harness.Rules()).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if status := fmt.Sprint(u.Object["status"]); !strings.Contains(status, problem) {
			return fmt.Errorf("its status is %s", status)
		}
		return nil
	})
	return err
}
