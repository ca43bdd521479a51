// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package members

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/roster-mesh/roster/kube/apiserver/datadir"
	"github.com/roster-mesh/roster/kube/apiserver/etcd"
)

// own is what a server itself connects with.
func own(t *testing.T, d *datadir.Dir) *tls.Config {
	t.Helper()
	config, err := etcd.ClientTLS(d.PairFile(datadir.Peer), d.PeerCAFile())
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// post sends something to the path where servers ask to be let in.
func post(t *testing.T, config *tls.Config, peer string, body io.Reader) (int, string, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, etcd.PeerURL(peer)+joinPath, body)
	if err != nil {
		t.Fatal(err)
	}
	got, err := NewClient(config).Do(r)
	if err != nil {
		return 0, "", err
	}
	defer got.Body.Close()
	said, err := io.ReadAll(got.Body)
	return got.StatusCode, string(said), err
}

// Nobody is answered without a certificate for servers that is valid: not with none, nor with one of the API's CA, which
// every administrator has, nor with one that has ended.
func TestStrangers(t *testing.T) {
	t.Parallel()
	one := first(t)
	good := own(t, one.dir)
	admin, err := tls.LoadX509KeyPair(one.dir.PairFile(datadir.Admin), one.dir.PairFile(datadir.Admin))
	if err != nil {
		t.Fatal(err)
	}
	files, err := one.dir.Shared()
	if err != nil {
		t.Fatal(err)
	}
	late := openDir(t, filepath.Join(t.TempDir(), "late"))
	if err := late.WriteShared(files); err != nil {
		t.Fatal(err)
	}
	if _, err := late.EnsurePeerPKI("127.0.0.1", time.Now().AddDate(-1, 0, -1)); err != nil {
		t.Fatal(err)
	}
	for name, certs := range map[string][]tls.Certificate{"none": nil, "API's CA": {admin}, "ended": own(t, late).Certificates} {
		config := good.Clone()
		config.Certificates = certs
		if code, said, err := post(t, config, one.peer, strings.NewReader("{}")); err == nil {
			t.Errorf("%s: code %d, %s", name, code, said)
		}
	}
	if code, said, err := post(t, good, one.peer, strings.NewReader("{}")); err != nil || code != http.StatusBadRequest {
		t.Errorf("a server: code %d, %s, %v", code, said, err)
	}
}

// Those who connect and say nothing are many, and do not last; meanwhile servers are answered.
func TestSilentStrangers(t *testing.T) {
	t.Parallel()
	one := first(t)
	var silent []net.Conn
	for range 200 {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", one.peer)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		silent = append(silent, conn)
	}
	if code, said, err := post(t, own(t, one.dir), one.peer, strings.NewReader("{}")); err != nil || code != http.StatusBadRequest {
		t.Errorf("a server: code %d, %s, %v", code, said, err)
	}
	for _, conn := range silent {
		if err := conn.SetReadDeadline(time.Now().Add(within)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(conn); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal("a connection that says nothing goes on")
		}
	}
}

// Whoever has a server's certificate is not let in without the ticket of a bundle, in which it is not named. So a server
// that was removed does not add itself again.
func TestServerWithoutATicket(t *testing.T) {
	t.Parallel()
	one := first(t)
	removed, free := freeAddress(t), freeAddress(t)
	used, err := Add(t.Context(), one.Client(), one.dir, removed, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	j := joiner(t, openDir(t, filepath.Join(t.TempDir(), "d")), used)
	if _, err := j.Join(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := Remove(t.Context(), one.Client(), removed); err != nil {
		t.Fatal(err)
	}
	unused, err := Add(t.Context(), one.Client(), one.dir, free, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	ask := func(r request) string {
		data, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	for name, c := range map[string]struct {
		body string
		code int
	}{
		"used bundle":           {ask(request{Bundle: used.ID, Instance: j.Instance, Peer: removed}), http.StatusGone},
		"no bundle":             {ask(request{Peer: removed}), http.StatusBadRequest},
		"no bundle, instance":   {ask(request{Instance: j.Instance, Peer: removed}), http.StatusBadRequest},
		"no instance":           {ask(request{Bundle: unused.ID, Peer: free}), http.StatusBadRequest},
		"bundle of another":     {ask(request{Bundle: unused.ID, Instance: "i", Peer: removed}), http.StatusGone},
		"address that is none":  {ask(request{Bundle: unused.ID, Instance: "i", Peer: "a,b:1"}), http.StatusBadRequest},
		"no JSON":               {"\x00", http.StatusBadRequest},
		"body without an end":   {`{"bundle":"` + strings.Repeat("x", 10<<20), http.StatusBadRequest},
		"path for another file": {ask(request{Bundle: unused.ID, Instance: "i", Peer: "../" + free}), http.StatusBadRequest},
	} {
		code, said, err := post(t, own(t, one.dir), one.peer, strings.NewReader(c.body))
		if name == "body without an end" && err != nil {
			continue // the connection was closed while it was being sent
		}
		if err != nil || code != c.code || strings.Contains(said, used.ID) || strings.Contains(said, unused.ID) {
			t.Errorf("%s: code %d, %s, %v; want code %d", name, code, said, err, c.code)
		}
	}
	if all, err := addresses(t.Context(), one.Client()); err != nil || !slices.Equal(all, []string{one.peer}) {
		t.Errorf("the servers are %v, %v", all, err)
	}
	if _, err := letIn(t.Context(), one.Client(), request{Peer: removed}, time.Now()); !errors.Is(err, ErrReplaced) {
		t.Errorf("no bundle: %v", err)
	}
}

// A server goes by what is in etcd: a bundle whose hour somebody has moved is refused.
func TestLateBundle(t *testing.T) {
	t.Parallel()
	one := first(t)
	b, err := Add(t.Context(), one.Client(), one.dir, freeAddress(t), time.Now().Add(-2*Life))
	if err != nil {
		t.Fatal(err)
	}
	b.Expires = time.Now().Add(Life)
	if _, err := joiner(t, openDir(t, filepath.Join(t.TempDir(), "d")), b).Join(t.Context()); err == nil || err.Error() != ErrExpired.Error() {
		t.Errorf("it was let in: %v", err)
	}
}

// between does something before etcd is asked for a change, or after it was asked for its members.
type between struct {
	clientv3.Cluster

	beforeAdd, afterList func()
}

func (b *between) MemberAddAsLearner(ctx context.Context, urls []string) (*clientv3.MemberAddResponse, error) {
	if b.beforeAdd != nil {
		b.beforeAdd()
	}
	return b.Cluster.MemberAddAsLearner(ctx, urls)
}

func (b *between) MemberList(ctx context.Context, o ...clientv3.OpOption) (*clientv3.MemberListResponse, error) {
	r, err := b.Cluster.MemberList(ctx, o...)
	if f := b.afterList; f != nil {
		b.afterList = nil
		f()
	}
	return r, err
}

// slowed is a client that does something between its requests.
func slowed(t *testing.T, c *clientv3.Client, b *between) *clientv3.Client {
	t.Helper()
	b.Cluster = c.Cluster
	out := clientv3.NewCtxClient(t.Context())
	out.KV, out.Lease, out.Cluster = c.KV, c.Lease, b
	return out
}

// A server that is removed while it is being let in is not let in: no member is left that nobody knows of.
func TestRemovedWhileItIsLetIn(t *testing.T) {
	t.Parallel()
	one := first(t)
	peer := freeAddress(t)
	for name, run := range map[string]func(letIn func(*clientv3.Client), remove func(*clientv3.Client)){
		"before it is added": func(letIn, remove func(*clientv3.Client)) {
			letIn(slowed(t, one.Client(), &between{beforeAdd: func() { remove(one.Client()) }}))
		},
		"after the members were looked at": func(letIn, remove func(*clientv3.Client)) {
			remove(slowed(t, one.Client(), &between{afterList: func() { letIn(one.Client()) }}))
		},
	} {
		b, err := Add(t.Context(), one.Client(), one.dir, peer, time.Now())
		if err != nil {
			t.Fatal(name, err)
		}
		run(func(c *clientv3.Client) {
			if _, err := letIn(t.Context(), c, request{Bundle: b.ID, Instance: "i", Peer: peer}, time.Now()); !errors.Is(err, ErrReplaced) {
				t.Errorf("%s: it was let in: %v", name, err)
			}
		}, func(c *clientv3.Client) {
			if err := Remove(t.Context(), c, peer); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
		if all, err := addresses(t.Context(), one.Client()); err != nil || !slices.Equal(all, []string{one.peer}) {
			t.Errorf("%s: the servers are %v, %v", name, all, err)
		}
	}
}

// Of many commands for one address at once, one bundle counts in the end; of many servers with it, one is let in; and a
// server that waits for that one to start learns which it is.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	one := first(t)
	peer := freeAddress(t)
	bundles := make(chan *Bundle)
	for range 8 {
		go func() {
			b, err := Add(t.Context(), one.Client(), one.dir, peer, time.Now())
			if err != nil && !errors.Is(err, errRaced) {
				t.Error(err)
			}
			bundles <- b
		}()
	}
	var written []*Bundle
	for range 8 {
		if b := <-bundles; b != nil {
			written = append(written, b)
		}
	}
	type result struct {
		id  string
		err error
	}
	results := make(chan result)
	for _, b := range written {
		for _, instance := range []string{"i", "j"} {
			go func() {
				err := errRaced
				for errors.Is(err, errRaced) {
					_, err = letIn(t.Context(), one.Client(), request{Bundle: b.ID, Instance: instance + b.ID, Peer: peer}, time.Now())
				}
				results <- result{b.ID, err}
			}()
		}
	}
	in := 0
	for range 2 * len(written) {
		if r := <-results; r.err == nil {
			in++
		} else if !errors.Is(r.err, ErrUsed) && !errors.Is(r.err, ErrReplaced) {
			t.Errorf("%s: %v", r.id, r.err)
		}
	}
	if list, err := one.Client().MemberList(t.Context()); err != nil || in != 1 || len(list.Members) != 2 ||
		!slices.ContainsFunc(list.Members, func(m *etcdserverpb.Member) bool { return m.IsLearner && m.PeerURLs[0] == etcd.PeerURL(peer) }) {
		t.Errorf("%d were let in, and the members are %v, %v", in, list, err)
	}
	other, err := Add(t.Context(), one.Client(), one.dir, freeAddress(t), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	_, err = letIn(t.Context(), one.Client(), request{Bundle: other.ID, Instance: "i", Peer: other.Peer}, time.Now())
	if err == nil || !strings.Contains(err.Error(), "another server is joining, "+peer) {
		t.Errorf("a second one that joins: %v", err)
	}
}
