// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package standalone runs an API server without Kubernetes around it: the kinds that need no nodes, on an etcd in the same
// process, with the controllers that those kinds need. The server itself is built by package controlplane.
package standalone

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/roster-mesh/roster/kube/apiserver/datadir"
	"github.com/roster-mesh/roster/kube/apiserver/etcd"
	"github.com/roster-mesh/roster/kube/apiserver/objects"
	"github.com/roster-mesh/roster/kube/apiserver/waiting"
)

// Options of Run. DataDir, Listen, Check and Log are required.
type Options struct {
	DataDir   string
	Name      string   // of the cluster; the data directory belongs to it
	Listen    string   // HOST:PORT
	Advertise []string // names and addresses that callers use, for the serving certificate
	CA        string   // directory with a CA in tls.crt and tls.key, for the first start; without one, the server makes its own

	PeerListen string // HOST:PORT at which other servers of the cluster reach this one; recorded at its first use
	Bundle     string // file that roster-apiserver add has written, for the first start of another server of a cluster

	EtcdServers    []string // URLs; without one, etcd runs in this process
	EtcdCAFile     string
	EtcdCertFile   string
	EtcdKeyFile    string
	Encryption     string // EncryptionConfiguration file; without one, the key in the data directory encrypts Secrets
	TokenFile      string
	Authentication string // AuthenticationConfiguration file
	Authorization  string // AuthorizationConfiguration file; without one, RBAC

	// Check reads what etcd keeps in a directory and says what is damaged, as etcd.Check does. That may crash.
	Check func(ctx context.Context, dir string) error
	Ready func() // is called once, when the server serves
	// Fatal is called with the reason before etcd ends the process, or panics, as when the disk is full; nil for nothing.
	Fatal func(error)
	Log   *slog.Logger
}

// Run serves until ctx ends. An error names the flag or the file that it is about.
func Run(ctx context.Context, o Options) error {
	m, err := readBundle(&o)
	if err != nil {
		return err
	}
	dir, err := openDir(ctx, o)
	if err != nil {
		return fmt.Errorf("--data-dir %s: %w", o.DataDir, err)
	}
	defer dir.Close()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.Listen)
	if err != nil {
		return fmt.Errorf("--listen %s: %w; choose another port or stop what uses it", o.Listen, cause(err))
	}
	defer listener.Close()
	if err := m.enter(&o, dir); err != nil {
		return fmt.Errorf("--data-dir %s: %w", o.DataDir, err)
	}
	if o.CA != "" {
		if err := dir.ImportAuthority(o.CA, time.Now()); err != nil {
			return fmt.Errorf("--ca %s: %w", o.CA, err)
		}
	}
	p := &process{o: o, dir: dir, listener: listener, address: localURL(listener.Addr()), peer: m.peer, encryption: o.Encryption}
	if err := p.prepare(); err != nil {
		return fmt.Errorf("--data-dir %s: %w", o.DataDir, err)
	}
	if len(o.EtcdServers) > 0 {
		elsewhere, err := p.openElsewhere(ctx)
		switch {
		case err != nil && ctx.Err() != nil:
			return nil // it was told to end
		case err != nil:
			return fmt.Errorf("--etcd-servers %s: %w", strings.Join(o.EtcdServers, ","), err)
		}
		defer elsewhere.Close()
		p.leads = elsewhere.Leads
		return p.serve(ctx)
	}
	store, err := m.startEtcd(ctx, o, dir)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil
	case err != nil:
		return named(o, err)
	}
	defer store.Close()
	p.store, p.leads = store, store.Leads
	return p.serve(ctx)
}

func (p *process) openElsewhere(ctx context.Context) (*etcd.Elsewhere, error) {
	identity, err := p.dir.Fingerprint()
	if err != nil {
		return nil, err
	}
	ca, err := os.ReadFile(p.dir.CAFile())
	if err != nil {
		return nil, err
	}
	late := time.AfterFunc(waiting.Slow, func() { p.o.Log.Info("waiting for etcd to answer", "etcd-servers", p.o.EtcdServers) })
	defer late.Stop()
	return etcd.OpenElsewhere(ctx, etcd.ElsewhereOptions{
		Servers: p.o.EtcdServers, CAFile: p.o.EtcdCAFile, CertFile: p.o.EtcdCertFile, KeyFile: p.o.EtcdKeyFile,
		Identity: identity, CA: ca, Log: p.o.Log,
	})
}

// openDir says so when another process uses the directory.
func openDir(ctx context.Context, o Options) (*datadir.Dir, error) {
	late := time.AfterFunc(waiting.Slow, func() {
		o.Log.Info("waiting for another process to end that uses the directory", "directory", o.DataDir)
	})
	defer late.Stop()
	return datadir.Open(ctx, o.DataDir, KubernetesVersion(), o.Name)
}

// prepare writes the files that the server starts with.
func (p *process) prepare() error {
	written, err := p.dir.EnsurePKI(datadir.Names{Hosts: p.o.Advertise, AgentUser: objects.AgentUser}, time.Now())
	if err != nil {
		return err
	}
	if len(written) > 0 {
		p.o.Log.Info("certificates were written", "names", strings.Join(written, ", "))
	}
	if err := p.warnOfEnd(time.Now()); err != nil {
		return err
	}
	if p.encryption == "" {
		if p.encryption, err = p.dir.EnsureEncryption(); err != nil {
			return err
		}
	}
	return p.dir.WriteKubeconfigs(p.address) // after the key: EnsureEncryption goes by them
}

// nameFlags adds to an error of Kubernetes' packages, which know files by their content, which flags it may be about.
func (o *Options) nameFlags(err error) error {
	var given []string
	for _, flag := range [][2]string{
		{"--token-auth-file", o.TokenFile},
		{"--authentication-config", o.Authentication},
		{"--authorization-config", o.Authorization},
		{"--encryption-provider-config", o.Encryption},
		{"--etcd-servers", strings.Join(o.EtcdServers, ",")},
	} {
		if flag[1] != "" {
			given = append(given, flag[0]+" "+flag[1])
		}
	}
	if len(given) == 0 {
		return err
	}
	return fmt.Errorf("%s: %w", strings.Join(given, " or "), err)
}

// localURL is where this machine reaches the server.
func localURL(address net.Addr) string {
	host, port, _ := net.SplitHostPort(address.String()) // it was made by the net package
	if ip := net.ParseIP(host); ip == nil || ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "https://" + net.JoinHostPort(host, port)
}

// cause is what the system said, without the operation that the caller names in its own words.
func cause(err error) error {
	if sys := (*os.SyscallError)(nil); errors.As(err, &sys) {
		return sys.Err
	}
	return err
}
