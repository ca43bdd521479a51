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
	freezeKey      = "restored"    // freeze, while a restore waits for its confirmation
	definitionsKey = "definitions" // the UIDs of the CRDs, JSON
)

// Mark records in the Secret with the cluster's key that a restore waits for its confirmation, for who writes that Secret
// because of one.
func Mark(secret *kube.Secret) {
	if len(secret.Data[freezeKey]) == 0 {
		secret.Data[freezeKey] = []byte("{}")
	}
}

// Resume goes on waiting for a confirmation, if the agent did when it ended, and begins to where the CRDs are other
// ones than were recorded: those have nothing of what was there.
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
	g.setDefinitions(parseDefinitions(secret))
	now, err := g.readDefinitions(ctx)
	if err != nil {
		return err
	}
	if name := g.replaced(now); name != "" {
		g.options.Log.Error("a CRD was deleted and made again while the agent was away", "crd", name)
		g.Freeze()
		return nil
	}
	return g.learnDefinitions(ctx, now)
}

// write keeps whether a restore waits for its confirmation. Where none does, the CRDs are those to go by.
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
	now, err := g.readDefinitions(ctx)
	if err != nil {
		return err
	}
	return g.learnDefinitions(ctx, now)
}

// parseFreeze returns nil when no restore waited. A record that cannot be read was one: what was there before it must be
// looked up again.
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

// parseDefinitions returns nil where none were recorded, or the record cannot be read.
func parseDefinitions(secret *kube.Secret) map[string]types.UID {
	var uids map[string]types.UID
	if err := json.Unmarshal(secret.Data[definitionsKey], &uids); err != nil {
		return nil // as of an agent that did not keep it
	}
	return uids
}

// learnDefinitions records the CRDs that the objects are made under from here on; it writes only when they have changed.
func (g *Gate) learnDefinitions(ctx context.Context, now map[string]types.UID) error {
	data, err := json.Marshal(now)
	if err != nil {
		return fmt.Errorf("encode the record of CRDs: %w", err)
	}
	err = g.options.Store.Change(ctx, store.IdentitySecret, func(secret *kube.Secret) (bool, error) {
		if was := parseDefinitions(secret); was != nil && maps.Equal(was, now) {
			return false, nil
		}
		if secret.Data == nil {
			secret.Data = map[string][]byte{}
		}
		secret.Data[definitionsKey] = data
		return true, nil
	})
	if err != nil {
		return err
	}
	g.setDefinitions(now)
	return nil
}
