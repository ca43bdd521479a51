// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
)

func TestStartTimes(t *testing.T) {
	t.Parallel()
	got, err := startTimes([]string{
		"testbed: cluster-1: etcd ready after 0.31 s", "testbed: cluster-1: apiserver ready after 12.04 s",
		"testbed: 1 clusters after 12.4 s, kubeconfigs in /tmp/ready after 3 s", "testbed: stopping",
	})
	want := map[string]time.Duration{"etcd": 310 * time.Millisecond, "apiserver": 12040 * time.Millisecond}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(err, diff)
	}
	if _, err := startTimes([]string{"cluster-1: etcd ready after 1.2.3 s"}); err == nil {
		t.Error("1.2.3 seconds are no error")
	}
}

func TestServerUsage(t *testing.T) {
	t.Parallel()
	u := serverUsage{resident: map[string]int{"etcd": 100 << 20, "apiserver": 600<<20 + 1}}
	if u.total() != 700<<20+1 {
		t.Errorf("%d bytes in all", u.total())
	}
	if got, want := u.mib(2), "350 MiB (apiserver 300, etcd 50)"; got != want {
		t.Errorf("%q, not %q", got, want)
	}
	if most := mostGrown([]int64{100, 7, 7}, []int64{101, 7, 12}); most != 5 {
		t.Errorf("the most is %d", most)
	}
}

// Neither side is always the first.
func TestTurns(t *testing.T) {
	t.Parallel()
	c := &comparison{theirs: &side{name: "a"}, ours: &side{name: "b"}}
	order := ""
	for round := range 3 {
		for _, s := range c.turns(round) {
			order += s.name
		}
	}
	if order != "abbaab" {
		t.Errorf("the order is %s", order)
	}
}

func TestFlood(t *testing.T) {
	t.Parallel()
	var calls, sum atomic.Int64
	took, err := flood(t.Context(), 100, func(_ context.Context, i int) error {
		calls.Add(1)
		sum.Add(int64(i))
		return nil
	})
	if err != nil || calls.Load() != 100 || sum.Load() != 4950 || len(took.each) != 100 {
		t.Errorf("%d calls, their sum %d, %d times: %v", calls.Load(), sum.Load(), len(took.each), err)
	}
	for _, each := range took.each {
		if each > took.whole {
			t.Errorf("one took %s, all %s", each, took.whole)
		}
	}
	bang := errors.New("bang")
	if _, err := flood(t.Context(), 100, func(context.Context, int) error { return bang }); !errors.Is(err, bang) {
		t.Errorf("the error is %v", err)
	}
}

// The comparison of API servers is taken when it is named, and then alone.
func TestStandaloneIsNamed(t *testing.T) {
	t.Parallel()
	for _, p := range parts() {
		named := settings{only: standalonePart, clusters: []int{3}}
		if p.name == standalonePart || named.takes(p, 3) {
			t.Errorf("part %s of a group", p.name)
		}
	}
	err := run(t.Context(), []string{"--only", "none"}, io.Discard, io.Discard)
	if err == nil || !strings.Contains(err.Error(), standalonePart) {
		t.Errorf("the parts that there are: %v", err)
	}
	err = run(t.Context(), []string{"--only", standalonePart, "--profile", t.TempDir()}, io.Discard, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "--profile") {
		t.Errorf("profiles of agents that are not measured: %v", err)
	}
}

// A write that fails waits until it is acknowledged at the other server, and those that begin later do not wait for it.
func TestSteadyWriter(t *testing.T) {
	t.Parallel()
	var killed atomic.Bool
	var refused, created atomic.Int64
	refuse := func(k8stesting.Action) (bool, runtime.Object, error) {
		if killed.Load() && refused.Add(1) <= 3 {
			return true, nil, errors.New("no leader")
		}
		created.Add(1)
		return false, nil, nil
	}
	var left []*oneServer
	for range 2 {
		client := fake.NewClientset()
		client.PrependReactor("create", "secrets", refuse)
		left = append(left, &oneServer{secrets: client.CoreV1().Secrets("default")})
	}
	w := &steadyWriter{left: left}
	err := w.run(t.Context(), func() error {
		killed.Store(true)
		return nil
	})
	if err != nil || w.acked < afterKill || created.Load() < beforeKill+afterKill || refused.Load() < 3 {
		t.Errorf("%d writes, %d of them after the kill, %d refused: %v", created.Load(), w.acked, refused.Load(), err)
	}
	if w.longest < everySoOften {
		t.Errorf("the longest wait is %s, and one was refused", w.longest)
	}
	bang := errors.New("bang")
	if err := (&steadyWriter{left: left, round: 1}).run(t.Context(), func() error { return bang }); !errors.Is(err, bang) {
		t.Errorf("the error is %v", err)
	}
}
