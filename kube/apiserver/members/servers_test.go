// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package members

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/roster-mesh/roster/kube/apiserver/datadir"
	"github.com/roster-mesh/roster/kube/apiserver/etcd"
)

// within bounds what etcd needs on a busy machine.
const within = time.Minute

// server is a data directory with its etcd, as a process has them, without the API.
type server struct {
	*etcd.Server

	dir  *datadir.Dir
	peer string
	end  func()
}

// openDir makes a directory with all keys.
func openDir(t *testing.T, path string) *datadir.Dir {
	t.Helper()
	d, err := datadir.Open(t.Context(), path, "v1.37.2", "alpha")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// prepare makes the keys of a first server.
func prepare(t *testing.T, d *datadir.Dir) {
	t.Helper()
	_, err := d.EnsurePKI(datadir.Names{}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.EnsureEncryption(); err != nil {
		t.Fatal(err)
	}
}

// start starts etcd on a directory, without a peer address if that is empty.
func start(t *testing.T, d *datadir.Dir, peer string, join []string) *server {
	t.Helper()
	o := etcd.Options{Dir: d.Path("etcd"), Join: join, Log: quiet}
	if peer != "" {
		host, _, err := net.SplitHostPort(peer)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.EnsurePeerPKI(host, time.Now()); err != nil {
			t.Fatal(err)
		}
		o.Peer = &etcd.Peer{
			Address: peer, Pair: d.PairFile(datadir.Peer), CA: d.PeerCAFile(),
			Handler: func(c *clientv3.Client) http.Handler { return Handler(c, quiet) },
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	e, err := etcd.Start(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{Server: e, dir: d, peer: peer}
	promoting, stop := context.WithCancel(t.Context())
	go Promote(promoting, e, quiet)
	s.end = sync.OnceFunc(func() {
		stop()
		_ = e.Close()
	})
	t.Cleanup(s.end)
	return s
}

// joiner makes a directory of a bundle, as standalone does, and what asks for it to be let in.
func joiner(t *testing.T, d *datadir.Dir, b *Bundle) *Joiner {
	t.Helper()
	own, err := d.Join(b.ID, b.Peer)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.WriteShared(b.Files); err != nil {
		t.Fatal(err)
	}
	host, _, err := net.SplitHostPort(b.Peer)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.EnsurePeerPKI(host, time.Now()); err != nil {
		t.Fatal(err)
	}
	config, err := etcd.ClientTLS(d.PairFile(datadir.Peer), d.PeerCAFile())
	if err != nil {
		t.Fatal(err)
	}
	return &Joiner{Bundle: b, Instance: own.Instance, Client: NewClient(config), Log: quiet}
}

// add makes another server of the cluster of s.
func (s *server) add(t *testing.T) *server {
	t.Helper()
	b, err := Add(t.Context(), s.Client(), s.dir, freeAddress(t), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	d := openDir(t, filepath.Join(t.TempDir(), "d"))
	servers, err := joiner(t, d, b).Join(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return start(t, d, b.Peer, servers)
}

// first makes the first server of a cluster.
func first(t *testing.T) *server {
	t.Helper()
	d := openDir(t, filepath.Join(t.TempDir(), "d"))
	prepare(t, d)
	return start(t, d, freeAddress(t), nil)
}

// nextPort is where freeAddress looks next, below the range of outgoing connections.
var nextPort atomic.Int32

// freeAddress is one of this machine that nothing listens on. Each call returns another one.
func freeAddress(t *testing.T) string {
	t.Helper()
	for {
		address := fmt.Sprintf("127.0.0.1:%d", 16000+os.Getpid()%80*50+int(nextPort.Add(1)))
		if l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address); err == nil {
			_ = l.Close()
			return address
		}
	}
}

func (s *server) put(t *testing.T, key string) {
	t.Helper()
	if _, err := s.Client().Put(t.Context(), key, "x"); err != nil {
		t.Fatal(err)
	}
}

// has says whether a key is there, by a read that a majority takes part in.
func (s *server) has(t *testing.T, key string) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	r, err := s.Client().Get(ctx, key)
	if err != nil {
		t.Fatal(err)
	}
	return r.Count == 1
}

// A server that began alone gets an address; two others join it, one by the other; all vote and have all data; and
// without one of them the others go on. Then that one is replaced by a new server at the same address.
func TestThreeServers(t *testing.T) {
	t.Parallel()
	d := openDir(t, filepath.Join(t.TempDir(), "d"))
	prepare(t, d)
	alone := start(t, d, "", nil)
	alone.put(t, "alone")
	if _, err := Add(t.Context(), alone.Client(), d, freeAddress(t), time.Now()); err == nil || !strings.Contains(err.Error(), "--peer-listen") {
		t.Errorf("a server without an address: %v", err)
	}
	if err := Remove(t.Context(), alone.Client(), ""); err == nil {
		t.Error("the only server was removed")
	}
	alone.end()

	one := start(t, d, freeAddress(t), nil)
	two := one.add(t)
	three := two.add(t)
	one.put(t, "three")
	for _, s := range []*server{one, two, three} {
		if !s.has(t, "alone") || !s.has(t, "three") {
			t.Errorf("%s lacks data", s.peer)
		}
		if all, err := addresses(t.Context(), s.Client()); err != nil || !slices.Equal(all, sorted(one.peer, two.peer, three.peer)) {
			t.Errorf("%s knows %v, %v", s.peer, all, err)
		}
	}
	two.end()
	eventually(t, "a write without the second server", func(ctx context.Context) error {
		_, err := three.Client().Put(ctx, "without", "x")
		return err
	})
	if _, err := Add(t.Context(), one.Client(), one.dir, two.peer, time.Now()); err == nil || !strings.Contains(err.Error(), "remove-member") {
		t.Errorf("the address of a member: %v", err)
	}
	eventually(t, "its removal", func(ctx context.Context) error { return Remove(ctx, three.Client(), two.peer) })

	b, err := Add(t.Context(), one.Client(), one.dir, two.peer, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	d2 := openDir(t, filepath.Join(t.TempDir(), "new"))
	servers, err := joiner(t, d2, b).Join(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if again := start(t, d2, b.Peer, servers); !again.has(t, "without") {
		t.Error("the new server lacks data")
	}
}

// What is lost when a majority is: nothing that the last server has.
func TestCopyOfTheLastServer(t *testing.T) {
	t.Parallel()
	one := first(t)
	two := one.add(t)
	for i := range 50 {
		one.put(t, fmt.Sprint(i))
	}
	copied := filepath.Join(t.TempDir(), "etcd")
	if err := etcd.CopyData(two.dir.Path("etcd"), copied, quiet); err != nil { // as a crash would leave it
		t.Fatal(err)
	}
	last, err := etcd.Start(t.Context(), etcd.Options{Dir: copied, Force: true, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	defer last.Close()
	r, err := last.Client().Get(t.Context(), "", clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		t.Fatal(err)
	}
	// The second server may not have had the last writes: the first one and it are a majority only together, so it has.
	if r.Count < 50 {
		t.Errorf("it has %d keys", r.Count)
	}
}

// A bundle lets one directory in, however often that asks.
func TestBundleCountsOnce(t *testing.T) {
	t.Parallel()
	one := first(t)
	b, err := Add(t.Context(), one.Client(), one.dir, freeAddress(t), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	d := openDir(t, filepath.Join(t.TempDir(), "d"))
	own := joiner(t, d, b)
	for range 3 { // it was killed before etcd began
		if servers, err := own.Join(t.Context()); err != nil || !slices.Equal(servers, sorted(one.peer, b.Peer)) {
			t.Fatal(servers, err)
		}
	}
	other := joiner(t, openDir(t, filepath.Join(t.TempDir(), "d")), b)
	if _, err := other.Join(t.Context()); err == nil || err.Error() != ErrUsed.Error() {
		t.Errorf("another directory: %v", err)
	}
	start(t, d, b.Peer, []string{one.peer, b.Peer})
	if _, err := own.Join(t.Context()); err == nil || err.Error() != errStarted.Error() {
		t.Errorf("a directory that lost its data: %v", err)
	}
}

func TestBundleIsReplaced(t *testing.T) {
	t.Parallel()
	one := first(t)
	peer := freeAddress(t)
	old, err := Add(t.Context(), one.Client(), one.dir, peer, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	late, err := Add(t.Context(), one.Client(), one.dir, peer, time.Now().Add(-2*Life))
	if err != nil {
		t.Fatal(err)
	}
	ask := func(b *Bundle) error {
		_, err := letIn(t.Context(), one.Client(), request{Bundle: b.ID, Instance: "i", Peer: peer}, time.Now())
		return err
	}
	if err := ask(old); !errors.Is(err, ErrReplaced) {
		t.Errorf("the first bundle: %v", err)
	}
	if err := ask(late); !errors.Is(err, ErrExpired) {
		t.Errorf("the late bundle: %v", err)
	}
	if err := Remove(t.Context(), one.Client(), peer); err != nil {
		t.Fatal(err)
	}
	if err := ask(late); !errors.Is(err, ErrReplaced) {
		t.Errorf("after its removal: %v", err)
	}
	if err := Remove(t.Context(), one.Client(), peer); err == nil || !strings.Contains(err.Error(), "those are "+one.peer) {
		t.Errorf("a server that there is none of: %v", err)
	}
}

// Whoever has no certificate of the servers' CA is not answered.
func TestStranger(t *testing.T) {
	t.Parallel()
	one := first(t)
	stranger := openDir(t, filepath.Join(t.TempDir(), "d"))
	prepare(t, stranger)
	if _, err := stranger.EnsurePeerPKI("127.0.0.1", time.Now()); err != nil {
		t.Fatal(err)
	}
	config, err := etcd.ClientTLS(stranger.PairFile(datadir.Peer), one.dir.PeerCAFile())
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/members", joinPath} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, etcd.PeerURL(one.peer)+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := NewClient(config).Do(r); err == nil {
			_ = got.Body.Close()
			t.Errorf("%s is answered: %d", path, got.StatusCode)
		}
	}
}

func sorted(all ...string) []string {
	slices.Sort(all)
	return all
}

// eventually tries until it succeeds.
func eventually(t *testing.T, what string, try func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	for {
		attempt, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := try(attempt)
		cancel()
		if err == nil {
			return
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("%s: %v", what, err)
		}
	}
}
