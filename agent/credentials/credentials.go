// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/roster-mesh/roster/agent/apiconn"
	"github.com/roster-mesh/roster/agent/loop"
	"github.com/roster-mesh/roster/agent/store"
	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/mesh"
	"github.com/roster-mesh/roster/mesh/pace"
)

// Accounts, and the life of their tokens.
const (
	legacyAccount = v1alpha1.LegacySwapAccount
	bootstrapLife = 24 * time.Hour
	readerAccount = "reader" // that all members shared in earlier releases
	readerLife    = 12 * time.Hour
)

// maxIssued credentials are issued to members in issuePeriod: each is two requests, and an object in etcd. Who gets none asks again.
const maxIssued, issuePeriod = 512, 10 * time.Second

var errTooMany = errors.New("too many credentials are asked for at a time")

// Options are the options of New.
type Options struct {
	Client    *kube.Client // of the local API server
	Issuer    *kube.Issuer
	Namespace string        // of the bootstrap credential's Secret
	Name      func() string // of the own Cluster object, and of that Secret
	// ManageSecret says that the agent keeps that Secret. Otherwise somebody else does.
	ManageSecret bool
	// LegacyToken makes the bootstrap credential one of a reader, for peers that get no credential of their own since they
	// are not in the mesh.
	LegacyToken bool
	Store       *store.Store   // has the Secret that bootstrap credentials are bound to
	Clock       *apiconn.Clock // of the local API server

	Disabled func(clusterID string) bool // whether that cluster is disabled here by annotation
	Pinned   func(mesh.Caller) bool      // whether who calls is a member still
	Share    pace.Share                  // shares among members by who admitted them
	Problem  func(error) error           // reports what is wrong with the bootstrap credential, nil for nothing, and returns it
	Log      *slog.Logger
}

// Credentials issues credentials for this cluster. Its methods are safe for concurrent use.
type Credentials struct {
	options  Options
	renewing *loop.Task
	budget   *pace.Budget // of what is issued to members

	issuing sync.Mutex // held from issuing or revoking the bootstrap credential until the Secret is written
	replace bool       // the one in the Secret was revoked; guarded by issuing
	// legacyEnded says that the account of earlier releases was deleted; guarded by issuing.
	legacyEnded bool

	mu      sync.Mutex
	expires time.Time // when the bootstrap credential expires; zero if not known
}

// New returns credentials. It renews nothing before Run.
func New(o Options) *Credentials {
	c := &Credentials{options: o, budget: pace.NewBudget(maxIssued, issuePeriod, o.Share)}
	c.renewing = loop.NewTask("bootstrap credential", o.Log, c.renew)
	return c
}

// Run keeps the bootstrap credential valid until ctx ends.
func (c *Credentials) Run(ctx context.Context) error {
	c.renewing.Trigger()
	return c.renewing.Run(ctx)
}

// Issue answers a member that asks for a credential to read this cluster: a kubeconfig. The mesh serves it as the
// method Credential.
func (c *Credentials) Issue(ctx context.Context, from mesh.Caller, _ []byte) ([]byte, error) {
	member := from.ClusterID
	if c.options.Disabled(member) {
		c.options.Log.Debug("no credential is issued: the cluster is disabled here", "member", member)
		return nil, fmt.Errorf("cluster %s is disabled here", member)
	}
	if taken, _ := c.budget.Take(member, false); !taken {
		c.options.Log.Debug("no credential is issued", "member", member, "error", errTooMany)
		return nil, errTooMany
	}
	issued, err := c.options.Issuer.Issue(ctx, v1alpha1.ReaderAccount(member), readerLife)
	if err != nil {
		c.options.Log.Warn("no credential is issued", "member", member, "error", err)
		return nil, err
	}
	if !c.options.Pinned(from) { // it was removed meanwhile
		err := c.Revoke(ctx, member)
		c.options.Log.Debug("no credential is issued: the cluster is not a member any more", "member", member, "error", err)
		return nil, errors.Join(fmt.Errorf("cluster %s is not a member any more", member), err)
	}
	return issued.Kubeconfig, nil
}

// Revoke ends the tokens that were issued to a cluster. It does nothing if there are none.
func (c *Credentials) Revoke(ctx context.Context, clusterID string) error {
	return c.options.Issuer.Revoke(ctx, v1alpha1.ReaderAccount(clusterID))
}
