// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package members

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// ticketPrefix is where tickets are in etcd, by the address of the server that may get in. The API server's own keys
// begin with /registry.
const ticketPrefix = "/roster-apiserver/bundles/"

// ticket is what etcd knows of a bundle.
//
//	Add:      none, free, or over  -> free
//	admit:    free                 -> used by an instance, and by no other one until it is over
//	Remove:   any                  -> none
type ticket struct {
	Bundle   string    `json:"bundle"`
	Instance string    `json:"instance,omitempty"` // the server that has used the bundle
	Expires  time.Time `json:"expires"`
}

// admit returns the ticket after a server has asked to be let in.
func (t ticket) admit(bundle, instance string, now time.Time) (ticket, error) {
	switch {
	case t.Bundle != bundle, bundle == "": // also without a ticket
		return t, ErrReplaced
	case t.Instance == instance: // also later: its answer may have been lost
		return t, nil
	case t.Instance != "":
		return t, ErrUsed
	case now.After(t.Expires):
		return t, ErrExpired
	}
	t.Instance = instance
	return t, nil
}

// replace returns an error when a new bundle for the same address must not be written.
func (t ticket) replace(now time.Time) error {
	if t.Instance != "" && now.Before(t.Expires) {
		return errors.New("a server is starting at this address with an earlier bundle; if it is lost, run roster-apiserver remove-member first")
	}
	return nil
}

// readTicket returns the ticket of an address with the revision that it was written at; none has revision 0.
func readTicket(ctx context.Context, kv clientv3.KV, peer string) (t ticket, revision int64, err error) {
	r, err := kv.Get(ctx, ticketPrefix+peer)
	if err != nil || len(r.Kvs) == 0 {
		return ticket{}, 0, err
	}
	if err := json.Unmarshal(r.Kvs[0].Value, &t); err != nil {
		return ticket{}, 0, fmt.Errorf("ticket of %s: %w", peer, err)
	}
	return t, r.Kvs[0].ModRevision, nil
}

// writeTicket replaces the ticket of that revision. It returns false if somebody else was faster.
func writeTicket(ctx context.Context, kv clientv3.KV, peer string, t ticket, revision int64, o clientv3.OpOption) (bool, error) {
	data, err := json.Marshal(t)
	if err != nil {
		return false, err
	}
	key := ticketPrefix + peer
	r, err := kv.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", revision)).
		Then(clientv3.OpPut(key, string(data), o)).Commit()
	if err != nil {
		return false, err
	}
	return r.Succeeded, nil
}
