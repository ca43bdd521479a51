// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roster-mesh/roster/agent/store"
	"github.com/roster-mesh/roster/kube"
)

// Keys of the Secret with the cluster's key.
const (
	freezeKey = "restored"    // freeze, while a restore waits for its confirmation
	crdsKey   = "definitions" // the UIDs of the CRDs, JSON
	reopenKey = "reopen"      // after a confirmation: until when a higher epoch may be opened, as RFC 3339 has it
)

// Mark records a freeze in the Secret with the cluster's key. It is for a caller that updates that Secret because of a
// restore: Resume then finds the freeze.
func Mark(secret *kube.Secret) {
	if len(secret.Data[freezeKey]) == 0 {
		secret.Data[freezeKey] = []byte("{}")
	}
}

// Resume continues a freeze that was recorded, or what the last confirmation permits. It begins a freeze if the CRDs are
// not the recorded ones, because new CRDs have none of the objects that were there.
func (g *Gate) Resume(ctx context.Context) error {
	secret, err := g.options.Store.Read(ctx, store.IdentitySecret)
	if err != nil {
		return err
	}
	if recorded := parseFreeze(secret); recorded != nil {
		g.mu.Lock()
		g.frozen = recorded
		g.mu.Unlock()
		return nil
	}
	g.setCRDs(parseCRDs(secret))
	g.mu.Lock()
	g.reopenUntil = parseReopen(secret)
	g.mu.Unlock()
	now, err := g.readCRDs(ctx)
	if err != nil {
		return err
	}
	if name := g.replaced(now); name != "" {
		g.options.Log.Error("a CRD was deleted and made again while the agent was away", "crd", name)
		g.Freeze()
		return nil
	}
	return g.recordOpen(ctx, now)
}

// recordFreeze records a freeze.
func (g *Gate) recordFreeze(ctx context.Context, state *freeze) error {
	data, err := json.Marshal(state)
	if err != nil {
		return fmt.Errorf("encode the record of a restore: %w", err)
	}
	return g.options.Store.SetKey(ctx, store.IdentitySecret, freezeKey, data)
}

// recordEnd records that the gate is open. See the documentation of the package for why in this order. The CRDs are read
// first, so that one that is made again meanwhile is not taken for the one that was confirmed.
func (g *Gate) recordEnd(ctx context.Context) error {
	now, err := g.readCRDs(ctx)
	if err != nil {
		return err
	}
	if err := g.accept(ctx); err != nil {
		return fmt.Errorf("record how far the local API server is: %w", err)
	}
	return g.recordOpen(ctx, now)
}

// accept calls Options.Accept for acceptTime at most.
func (g *Gate) accept(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, acceptTime)
	defer cancel()
	return g.options.Accept(ctx)
}

// recordOpen removes the record of a freeze. In the same update it records the present CRDs as those of this cluster's
// objects, and until when a higher epoch may be opened. It writes only a change, and nothing if another freeze has begun.
func (g *Gate) recordOpen(ctx context.Context, now map[string]types.UID) error {
	data, err := json.Marshal(now)
	if err != nil {
		return fmt.Errorf("encode the record of CRDs: %w", err)
	}
	frozen := false
	err = g.options.Store.Change(ctx, store.IdentitySecret, func(secret *kube.Secret) (bool, error) {
		if frozen = g.Frozen(); frozen {
			return false, nil
		}
		return setKeys(secret, map[string][]byte{freezeKey: nil, crdsKey: data, reopenKey: g.reopen(secret)}), nil
	})
	if err != nil || frozen {
		return err
	}
	g.setCRDs(now)
	return nil
}

// reopen is the record of until when a higher epoch may be opened, nil for not. It begins while a member shows one that
// waits to be opened, and at no other time: a backup that has it would permit an epoch after the next restore, too.
func (g *Gate) reopen(secret *kube.Secret) []byte {
	waits := g.options.EpochSeen() > 0
	g.mu.Lock()
	defer g.mu.Unlock()
	if !time.Now().Before(g.reopenUntil) {
		return nil
	}
	until := g.reopenUntil.UTC().Format(time.RFC3339)
	if !waits && string(secret.Data[reopenKey]) != until { // after a start, members are yet to show it
		return nil
	}
	return []byte(until)
}

// parseReopen returns until when a higher epoch may be opened, the zero time for not. A backup brings it back only if it
// was made while an epoch waited, which takes moments, and then with the end of its own hour.
func parseReopen(secret *kube.Secret) time.Time {
	until, err := time.Parse(time.RFC3339, string(secret.Data[reopenKey]))
	if err != nil {
		return time.Time{}
	}
	if latest := time.Now().Add(reopenTime); until.After(latest) {
		return latest // it is of a clock that was ahead
	}
	return until
}

// setKeys sets keys of a Secret, or deletes those with nil, and returns whether that changed anything.
func setKeys(secret *kube.Secret, values map[string][]byte) (changed bool) {
	for key, value := range values {
		if string(secret.Data[key]) == string(value) {
			continue
		}
		if secret.Data[key], changed = value, true; value == nil {
			delete(secret.Data, key)
		}
	}
	return changed
}

// parseFreeze returns nil if there was no freeze. An unreadable record counts as a freeze whose annotation is not
// known.
func parseFreeze(secret *kube.Secret) *freeze {
	data := secret.Data[freezeKey]
	if len(data) == 0 {
		return nil
	}
	out := &freeze{}
	if err := json.Unmarshal(data, out); err != nil {
		return &freeze{}
	}
	return out
}

// parseCRDs returns nil if no CRDs were recorded, or the record cannot be decoded.
func parseCRDs(secret *kube.Secret) map[string]types.UID {
	var uids map[string]types.UID
	if err := json.Unmarshal(secret.Data[crdsKey], &uids); err != nil {
		return nil // an earlier release did not record them
	}
	return uids
}
