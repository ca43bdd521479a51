// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package members

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/roster-mesh/roster/kube/apiserver/datadir"
	"github.com/roster-mesh/roster/kube/apiserver/etcd"
)

// requestTimeout bounds what etcd is asked. It answers in milliseconds when it can.
const requestTimeout = 10 * time.Second

// errRaced is returned when two commands for the same address run at the same time.
var errRaced = errors.New("another command for the same address was faster: try again")

// Add makes a bundle for a server that the others will reach at peer, HOST:PORT. An earlier bundle for that address that
// nobody has used no longer counts.
func Add(ctx context.Context, client *clientv3.Client, dir *datadir.Dir, peer string, now time.Time) (*Bundle, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	servers, err := addresses(ctx, client)
	if err != nil {
		return nil, err
	}
	if slices.Contains(servers, "") {
		return nil, errors.New("this server has no address for others: start it with --peer-listen HOST:PORT, once")
	}
	if slices.Contains(servers, peer) {
		return nil, fmt.Errorf("%s is the address of a server: if that one is lost, run roster-apiserver remove-member first", peer)
	}
	b := &Bundle{Format: bundleFormat, ID: rand.Text(), Expires: now.Add(Life), Peer: peer, Servers: servers}
	if b.Record, err = dir.Record(); err != nil {
		return nil, err
	}
	if b.Files, err = dir.Shared(); err != nil {
		return nil, err
	}
	old, revision, err := readTicket(ctx, client, peer)
	if err != nil {
		return nil, plain(err)
	}
	if err := old.replace(now); err != nil {
		return nil, err
	}
	// The lease clears the ticket away; what counts is the time in it, for a lease can live longer.
	lease, err := client.Grant(ctx, int64((2 * Life).Seconds()))
	if err != nil {
		return nil, plain(err)
	}
	written, err := writeTicket(ctx, client, peer, ticket{Bundle: b.ID, Expires: b.Expires}, revision, clientv3.WithLease(lease.ID))
	if err == nil && !written {
		err = errRaced
	}
	if err != nil {
		return nil, plain(err)
	}
	return b, nil
}

// Remove takes a server out of the cluster, or makes a bundle for its address worthless. The server's process ends if it
// runs.
func Remove(ctx context.Context, client *clientv3.Client, peer string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	deleted, err := client.Delete(ctx, ticketPrefix+peer) // before anything else: see letIn
	if err != nil {
		return plain(err)
	}
	list, err := client.MemberList(ctx)
	if err != nil {
		return plain(err)
	}
	found := slices.IndexFunc(list.Members, func(m *etcdserverpb.Member) bool { return slices.Contains(m.PeerURLs, etcd.PeerURL(peer)) })
	if found >= 0 && len(list.Members) == 1 {
		return fmt.Errorf("%s is the only server of this cluster", peer)
	}
	if found < 0 {
		if deleted.Deleted > 0 {
			return nil
		}
		servers, err := addresses(ctx, client)
		if err != nil {
			return err
		}
		return fmt.Errorf("%s is no server of this cluster; those are %s", peer, strings.Join(servers, ", "))
	}
	if _, err := client.MemberRemove(ctx, list.Members[found].ID); err != nil && !errors.Is(err, rpctypes.ErrMemberNotFound) {
		return plain(err)
	}
	return nil
}

// addresses are those of all servers; that of one without --peer-listen is empty.
func addresses(ctx context.Context, client clientv3.Cluster) ([]string, error) {
	list, err := client.MemberList(ctx)
	if err != nil {
		return nil, plain(err)
	}
	var all []string
	for _, member := range list.Members {
		all = append(all, address(member))
	}
	slices.Sort(all)
	return all, nil
}

// address is empty for a member without --peer-listen.
func address(m *etcdserverpb.Member) string {
	if len(m.PeerURLs) > 0 {
		if host, ok := strings.CutPrefix(m.PeerURLs[0], etcd.PeerURL("")); ok {
			return host
		}
	}
	return ""
}

// plain says what etcd means.
func plain(err error) error {
	switch {
	case errors.Is(err, rpctypes.ErrUnhealthy), errors.Is(err, rpctypes.ErrMemberNotEnoughStarted):
		return fmt.Errorf("a majority of the servers must have been up for 5 s, before and after this change: remove those that are lost first (%w)", err)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, rpctypes.ErrTimeout), errors.Is(err, rpctypes.ErrNoLeader):
		return fmt.Errorf("etcd does not answer, as when a majority of the servers is down (%w)", err)
	}
	return err
}
