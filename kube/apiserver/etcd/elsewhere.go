// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	clienttransport "go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/roster-mesh/roster/kube/apiserver/waiting"
)

const (
	// claimKey says whose data this etcd has: Identity of the servers that use it. It is beside Kubernetes' own prefix.
	claimKey = "/roster-apiserver/cluster"
	// leaderKey is the prefix of those that may run the controllers, in the order in which they came.
	leaderKey = "/roster-apiserver/controllers"
	// leaderTTL, in seconds, is for how long nobody runs the controllers after the one that did was killed. Renewing a lease
	// is no write to etcd's log.
	leaderTTL = 15

	elsewhereTimeout = 30 * time.Second
)

// ErrClaimed is returned for an etcd that has the data of a cluster with other keys.
var ErrClaimed = errors.New("it has the data of another cluster, or of this one with other keys")

// ElsewhereOptions are those of OpenElsewhere. Servers, Identity and Log are required.
type ElsewhereOptions struct {
	Servers           []string // URLs
	CAFile            string
	CertFile, KeyFile string
	// Identity is the same for all servers of the cluster, and for no others: what their keys are.
	Identity string
	Log      *slog.Logger
}

// Elsewhere is an etcd outside of this process. Several servers may use it at a time, if they have the same keys: with
// others, one could not read the Secrets, and would refuse the tokens, of the other. One of them leads.
type Elsewhere struct {
	client *clientv3.Client
	leads  atomic.Bool
	log    *slog.Logger
	stop   context.CancelFunc
	ended  chan struct{}
}

// OpenElsewhere returns once the etcd is known to be this cluster's, and then takes part in the election of who leads. An
// etcd that nobody has claimed yet becomes this cluster's.
func OpenElsewhere(ctx context.Context, o ElsewhereOptions) (*Elsewhere, error) {
	config := clientv3.Config{Endpoints: o.Servers, DialTimeout: dialTimeout, Logger: Logger(o.Log)}
	if o.CAFile != "" || o.CertFile != "" || strings.HasPrefix(o.Servers[0], "https:") {
		var err error
		info := clienttransport.TLSInfo{CertFile: o.CertFile, KeyFile: o.KeyFile, TrustedCAFile: o.CAFile}
		if config.TLS, err = info.ClientConfig(); err != nil {
			return nil, err
		}
	}
	client, err := clientv3.New(config)
	if err != nil {
		return nil, err
	}
	if err := claim(ctx, client, o.Identity); err != nil {
		return nil, errors.Join(err, client.Close())
	}
	electing, stop := context.WithCancel(context.WithoutCancel(ctx))
	e := &Elsewhere{client: client, log: o.Log, stop: stop, ended: make(chan struct{})}
	go e.elect(electing)
	return e, nil
}

// claim makes an unclaimed etcd this cluster's, or checks that it is.
func claim(ctx context.Context, client *clientv3.Client, identity string) error {
	ctx, cancel := context.WithTimeout(ctx, elsewhereTimeout)
	defer cancel()
	answer, err := client.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(claimKey), "=", 0)).
		Then(clientv3.OpPut(claimKey, identity)).
		Else(clientv3.OpGet(claimKey)).Commit()
	switch {
	case err != nil:
		return fmt.Errorf("it does not answer: %w", err)
	case answer.Succeeded:
		return nil
	}
	if have := answer.Responses[0].GetResponseRange().Kvs; len(have) == 1 && string(have[0].Value) == identity {
		return nil
	}
	return fmt.Errorf("%w: start from that cluster's --data-dir, or a copy of it; to give those data up, delete them and the key %s", ErrClaimed, claimKey)
}

// elect takes part in elections until ctx ends.
func (e *Elsewhere) elect(ctx context.Context) {
	defer close(e.ended)
	for ctx.Err() == nil {
		if err := e.term(ctx); err != nil && ctx.Err() == nil {
			e.log.Warn("no part in the election of who runs the controllers", "error", err)
			waiting.Sleep(ctx, time.Second)
		}
	}
}

// term lasts from when this server stands for election until it has lost its lease.
func (e *Elsewhere) term(ctx context.Context) error {
	session, err := concurrency.NewSession(e.client, concurrency.WithTTL(leaderTTL), concurrency.WithContext(ctx))
	if err != nil {
		return err
	}
	defer func() {
		e.leads.Store(false)
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_, _ = e.client.Revoke(ending, session.Lease()) // so that another one leads at once
		session.Orphan()
	}()
	campaign, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		select {
		case <-session.Done():
			stop()
		case <-campaign.Done():
		}
	}()
	if err := concurrency.NewElection(session, leaderKey).Campaign(campaign, ""); err != nil {
		return err
	}
	e.leads.Store(true)
	<-campaign.Done()
	return nil
}

// Leads says whether this server is the one that runs the controllers.
func (e *Elsewhere) Leads() bool { return e.leads.Load() }

// Close gives the lead up.
func (e *Elsewhere) Close() error {
	e.stop()
	<-e.ended
	return e.client.Close()
}
