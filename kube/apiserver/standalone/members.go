// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package standalone

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/roster-mesh/roster/kube/apiserver/datadir"
	"github.com/roster-mesh/roster/kube/apiserver/etcd"
	"github.com/roster-mesh/roster/kube/apiserver/members"
	"github.com/roster-mesh/roster/kube/apiserver/waiting"
)

// membership is the place of this server among those of its cluster.
type membership struct {
	bundle   *members.Bundle // nil unless this is the start of a new server
	instance string          // that the bundle is for
	peer     string          // HOST:PORT; empty for a server that is alone
}

// readBundle checks the bundle before anything is written. One that this data directory has used need not be there.
func readBundle(o *Options) (*membership, error) {
	m := &membership{}
	if o.Bundle == "" {
		return m, nil
	}
	b, err := members.ReadBundle(o.Bundle)
	_, started := os.Stat(filepath.Join(o.DataDir, "etcd", "member", "wal"))
	switch {
	case errors.Is(err, fs.ErrNotExist) && started == nil:
		return m, nil
	case err != nil:
		return nil, fmt.Errorf("--bundle %s: %w", o.Bundle, cause(err))
	}
	if o.Name == "" {
		o.Name = b.Record.Name
	}
	if b.Record.Name != "" && o.Name != b.Record.Name {
		return nil, fmt.Errorf("--bundle %s: it is for cluster %s, not %s", o.Bundle, b.Record.Name, o.Name)
	}
	if err := b.Record.CheckVersion(KubernetesVersion()); err != nil {
		return nil, fmt.Errorf("--bundle %s: the server that wrote it: %w", o.Bundle, err)
	}
	if started != nil {
		if err := b.CheckHour(time.Now()); err != nil {
			return nil, fmt.Errorf("--bundle %s: %w", o.Bundle, err)
		}
	}
	m.bundle = b
	return m, nil
}

// enter makes the data directory one of a server of the cluster, as far as that needs nobody else.
func (m *membership) enter(o *Options, dir *datadir.Dir) error {
	if m.bundle != nil {
		own, err := dir.Join(m.bundle.ID, m.bundle.Peer)
		if err != nil {
			return err
		}
		m.instance = own.Instance
		if !dir.HasData() {
			if err := dir.WriteShared(m.bundle.Files); err != nil {
				return err
			}
		}
	} else if len(o.EtcdServers) == 0 {
		if err := dir.CheckBegun(); err != nil {
			return err
		}
	}
	if o.PeerListen != "" {
		if err := dir.SetPeer(o.PeerListen); err != nil {
			return err
		}
	}
	own, err := dir.Member()
	if err != nil || own.Peer == "" {
		return err
	}
	m.peer = own.Peer
	_, err = ensurePeerPKI(dir, m.peer, time.Now())
	return err
}

// ensurePeerPKI says whether it wrote a certificate.
func ensurePeerPKI(dir *datadir.Dir, peer string, now time.Time) (bool, error) {
	host, _, err := net.SplitHostPort(peer)
	if err != nil {
		return false, err
	}
	return dir.EnsurePeerPKI(host, now)
}

// startEtcd says so when the start takes long.
func (m *membership) startEtcd(ctx context.Context, o Options, dir *datadir.Dir) (*etcd.Server, error) {
	data := dir.Path("etcd")
	late := time.AfterFunc(waiting.Slow, func() { o.Log.Info("waiting for etcd to be ready", "directory", data) })
	defer late.Stop()
	options := etcd.Options{Dir: data, Log: o.Log}
	if o.Fatal != nil {
		options.Fatal = func(err error) { o.Fatal(fmt.Errorf("--data-dir %s: etcd: %w", o.DataDir, err)) }
	}
	if m.peer != "" {
		options.Peer = &etcd.Peer{
			Address: m.peer, Pair: dir.PairFile(datadir.Peer), CA: dir.PeerCAFile(),
			Handler: func(c *clientv3.Client) http.Handler { return members.Handler(c, o.Log) },
		}
	}
	if dir.HasData() {
		if err := o.Check(ctx, data); err != nil {
			return nil, err
		}
	} else if m.bundle != nil {
		var err error
		if options.Join, err = m.join(ctx, o, dir); err != nil {
			return nil, &bundleError{err}
		}
	}
	store, err := etcd.Start(ctx, options)
	if err != nil {
		return nil, err
	}
	if err := dir.SetStarted(); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return store, nil
}

func (m *membership) join(ctx context.Context, o Options, dir *datadir.Dir) ([]string, error) {
	config, err := etcd.ClientTLS(dir.PairFile(datadir.Peer), dir.PeerCAFile())
	if err != nil {
		return nil, err
	}
	j := members.Joiner{Bundle: m.bundle, Instance: m.instance, Client: members.NewClient(config), Log: o.Log}
	return j.Join(ctx)
}

// bundleError is about the bundle, not the data directory.
type bundleError struct{ error }

// named says which flag an error of startEtcd is about.
func named(o Options, err error) error {
	if b := (*bundleError)(nil); errors.As(err, &b) {
		return fmt.Errorf("--bundle %s: %w", o.Bundle, b.error)
	}
	if l := (*etcd.ListenError)(nil); errors.As(err, &l) {
		return fmt.Errorf("--peer-listen %s: %w; choose another port or stop what uses it", l.Address, cause(l.Err))
	}
	return fmt.Errorf("--data-dir %s: %w", o.DataDir, err)
}
