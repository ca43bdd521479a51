// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"errors"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

func elsewhere(t *testing.T, s *Server, identity string) (*Elsewhere, error) {
	t.Helper()
	return OpenElsewhere(t.Context(), ElsewhereOptions{Servers: []string{s.Endpoint()}, Identity: identity, CA: []byte("CA of " + identity + "\n"), Log: slog.New(slog.DiscardHandler)})
}

// await polls memory until a deadline that no machine needs.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not within a minute: " + what)
		}
	}
}

// An etcd has the data of one cluster. Of the servers with that cluster's keys one leads; when it ends another does.
func TestElsewhere(t *testing.T) {
	t.Parallel()
	s := start(t, filepath.Join(t.TempDir(), "etcd"))
	t.Cleanup(func() { _ = s.Close() })
	first, err := elsewhere(t, s, "ours")
	if err != nil {
		t.Fatal(err)
	}
	await(t, "the first one leads", first.Leads)
	if other, err := elsewhere(t, s, "theirs"); !errors.Is(err, ErrClaimed) {
		t.Errorf("the etcd of another cluster: %v, %v", other, err)
	}
	second, err := elsewhere(t, s, "ours")
	if err != nil {
		t.Fatal(err)
	}
	await(t, "the second one stands for election", func() bool {
		all, err := client(t, s).Get(t.Context(), leaderKey, clientv3.WithPrefix())
		return err == nil && len(all.Kvs) == 2
	})
	if !first.Leads() || second.Leads() {
		t.Errorf("the first leads: %v; the second leads: %v", first.Leads(), second.Leads())
	}
	if err := first.Close(); err != nil || first.Leads() {
		t.Errorf("closed, it leads: %v, %v", first.Leads(), err)
	}
	began := time.Now()
	await(t, "the second one leads", second.Leads)
	if took := time.Since(began); took > leaderTTL*time.Second/2 {
		t.Errorf("it took %v: the lease was not given up", took)
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
}

// Data that nobody has claimed are those of the cluster whose CA they have.
func TestUnclaimedData(t *testing.T) {
	t.Parallel()
	s := start(t, filepath.Join(t.TempDir(), "etcd"))
	t.Cleanup(func() { _ = s.Close() })
	for key, value := range map[string]string{kubernetesData + "secrets/default/one": "data", rootCA: "k8s: CA of ours\nand more"} {
		if _, err := client(t, s).Put(t.Context(), key, value); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if other, err := elsewhere(t, s, "theirs"); !errors.Is(err, ErrClaimed) {
			t.Errorf("the etcd of another cluster: %v, %v", other, err)
		}
		ours, err := elsewhere(t, s, "ours")
		if err != nil {
			t.Fatal(err)
		}
		_ = ours.Close()
	}
}

// A server that waits to lead ends also when etcd has ended.
func TestCloseWithoutEtcd(t *testing.T) {
	t.Parallel()
	s := start(t, filepath.Join(t.TempDir(), "etcd"))
	var servers []*Elsewhere
	for range 2 {
		one, err := elsewhere(t, s, "ours")
		if err != nil {
			t.Fatal(err)
		}
		servers = append(servers, one)
	}
	await(t, "both stand for election", func() bool {
		all, err := client(t, s).Get(t.Context(), leaderKey, clientv3.WithPrefix())
		return err == nil && len(all.Kvs) == 2
	})
	_ = s.Close()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		for _, one := range servers {
			_ = one.Close()
		}
	}()
	select {
	case <-closed:
	case <-time.After(time.Minute):
		t.Fatal("they wait for etcd")
	}
}

// One whose lease is gone does not lead until it is elected again.
func TestLostLease(t *testing.T) {
	t.Parallel()
	s := start(t, filepath.Join(t.TempDir(), "etcd"))
	t.Cleanup(func() { _ = s.Close() })
	one, err := elsewhere(t, s, "ours")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = one.Close() })
	await(t, "it leads", one.Leads)
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{s.Endpoint()}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	leases, err := c.Leases(t.Context())
	if err != nil || len(leases.Leases) != 1 {
		t.Fatal(leases, err)
	}
	if _, err := c.Revoke(t.Context(), leases.Leases[0].ID); err != nil {
		t.Fatal(err)
	}
	await(t, "another lease leads", func() bool {
		now, err := c.Leases(t.Context())
		return err == nil && len(now.Leases) == 1 && now.Leases[0].ID != leases.Leases[0].ID && one.Leads()
	})
}
