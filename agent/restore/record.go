// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roster-mesh/roster/agent/store"
	"github.com/roster-mesh/roster/kube"
)

// Keys of the Secret with the cluster's key.
const (
	freezeKey = "restored"    // freeze, while a restore waits for its confirmation
	crdsKey   = "definitions" // the UIDs of the CRDs, JSON
)

// Mark records a freeze in the Secret with the cluster's key. It is for a caller that updates that Secret because of a
// restore: Resume then finds the freeze.
func Mark(secret *kube.Secret) {
	if len(secret.Data[freezeKey]) == 0 {
		secret.Data[freezeKey] = []byte("{}")
	}
}

// Resume continues a freeze that was recorded. Otherwise it begins one if the CRDs are not the recorded ones, because
// new CRDs have none of the objects that were there.
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
	now, err := g.readCRDs(ctx)
	if err != nil {
		return err
	}
	if name := g.replaced(now); name != "" {
		g.options.Log.Error("a CRD was deleted and made again while the agent was away", "crd", name)
		g.Freeze()
		return nil
	}
	return g.recordCRDs(ctx, now)
}

// write records the state. While open, it also records the present CRDs.
func (g *Gate) write(ctx context.Context, state *freeze) error {
	var data []byte
	if state != nil {
		var err error
		if data, err = json.Marshal(state); err != nil {
			return fmt.Errorf("encode the record of a restore: %w", err)
		}
	}
	if err := g.options.Store.SetKey(ctx, store.IdentitySecret, freezeKey, data); err != nil || state != nil {
		return err
	}
	now, err := g.readCRDs(ctx)
	if err != nil {
		return err
	}
	return g.recordCRDs(ctx, now)
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

// recordCRDs records the present CRDs as those of this cluster's objects. It writes only a change.
func (g *Gate) recordCRDs(ctx context.Context, now map[string]types.UID) error {
	data, err := json.Marshal(now)
	if err != nil {
		return fmt.Errorf("encode the record of CRDs: %w", err)
	}
	err = g.options.Store.Change(ctx, store.IdentitySecret, func(secret *kube.Secret) (bool, error) {
		if was := parseCRDs(secret); was != nil && maps.Equal(was, now) {
			return false, nil
		}
		if secret.Data == nil {
			secret.Data = map[string][]byte{}
		}
		secret.Data[crdsKey] = data
		return true, nil
	})
	if err != nil {
		return err
	}
	g.setCRDs(now)
	return nil
}
