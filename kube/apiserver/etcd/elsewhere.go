// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
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
	// As API servers have it: without, a machine of etcd's that vanishes is noticed after hours.
	keepAliveTime, keepAliveTimeout = 30 * time.Second, 10 * time.Second
	// closeWithin is how long Close waits for the lead to be given up.
	closeWithin = 2 * time.Second

	// kubernetesData is the prefix of what API servers keep, and rootCA the key of a ConfigMap with the CA of the cluster.
	kubernetesData = "/registry/"
	rootCA         = kubernetesData + "configmaps/kube-system/kube-root-ca.crt"
)

// ErrClaimed is returned for an etcd that has the data of a cluster with other keys.
var ErrClaimed = errors.New("it has the data of another cluster, or of this one with other keys")

// ElsewhereOptions are those of OpenElsewhere. Servers, Identity, CA and Log are required.
type ElsewhereOptions struct {
	Servers           []string // URLs
	CAFile            string
	CertFile, KeyFile string
	// Identity is the same for all servers of the cluster, and for no others: what their keys are.
	Identity string
	// CA is the cluster's own, in PEM: data that nobody has claimed are this cluster's if they have it.
	CA  []byte
	Log *slog.Logger
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
	config := clientv3.Config{
		Endpoints: o.Servers, DialTimeout: dialTimeout, DialKeepAliveTime: keepAliveTime, DialKeepAliveTimeout: keepAliveTimeout, Logger: Logger(o.Log),
	}
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
	if err := claim(ctx, client, o); err != nil {
		return nil, errors.Join(err, client.Close())
	}
	electing, stop := context.WithCancel(context.WithoutCancel(ctx))
	e := &Elsewhere{client: client, log: o.Log, stop: stop, ended: make(chan struct{})}
	go e.elect(electing)
	return e, nil
}

// claim makes an unclaimed etcd this cluster's, or checks that it is. One that has the data of API servers is unclaimed only if
// those data are this cluster's, from a version that did not claim.
func claim(ctx context.Context, client *clientv3.Client, o ElsewhereOptions) error {
	ctx, cancel := context.WithTimeout(ctx, elsewhereTimeout)
	defer cancel()
	unclaimed := clientv3.Compare(clientv3.CreateRevision(claimKey), "=", 0)
	empty := clientv3.Compare(clientv3.CreateRevision(kubernetesData).WithPrefix(), "=", 0)
	put := clientv3.OpPut(claimKey, o.Identity)
	answer, err := client.Txn(ctx).If(unclaimed, empty).Then(put).Else(clientv3.OpGet(claimKey), clientv3.OpGet(rootCA)).Commit()
	if err == nil && !answer.Succeeded {
		have := answer.Responses[0].GetResponseRange().Kvs
		if len(have) == 1 && string(have[0].Value) == o.Identity {
			return nil
		}
		ours := answer.Responses[1].GetResponseRange().Kvs
		if len(have) == 1 || len(ours) == 0 || !bytes.Contains(ours[0].Value, bytes.TrimSpace(o.CA)) {
			return fmt.Errorf("%w: start from that cluster's --data-dir, or a copy of it; to give those data up, delete %s and %s", ErrClaimed, kubernetesData, claimKey)
		}
		if answer, err = client.Txn(ctx).If(unclaimed).Then(put).Commit(); err == nil && !answer.Succeeded {
			return fmt.Errorf("%w: another server has just claimed it", ErrClaimed)
		}
	}
	if errors.Is(err, rpctypes.ErrPermissionDenied) {
		return fmt.Errorf("its user needs the keys below /roster-apiserver/ as well as those below %s: %w", kubernetesData, err)
	}
	if err != nil {
		return fmt.Errorf("it does not answer: %w", err)
	}
	return nil
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
	campaign, stop := context.WithCancel(clientv3.WithRequireLeader(ctx))
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

// Close gives the lead up, if etcd answers.
func (e *Elsewhere) Close() error {
	e.stop()
	select {
	case <-e.ended:
	case <-time.After(closeWithin): // a campaign that ends writes to etcd until the client is closed
	}
	err := e.client.Close()
	<-e.ended
	return err
}
