// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/roster-mesh/roster/agent/loop"
	"github.com/roster-mesh/roster/agent/store"
	"github.com/roster-mesh/roster/syncrules/engine"
)

const (
	copiesSecret = "roster-copies"
	scopesKey    = "scopes" // []engine.Scope as JSON
)

// scopes are the kinds and namespaces in which the engine has copies. They are recorded in the API server, so that the
// next agent, on any machine, finds the copies of a rule that is deleted while no agent runs.
type scopes struct {
	record *loop.Task

	mu  sync.Mutex
	now []engine.Scope
}

// scopesChanged implements engine.Options.ScopesChanged.
func (r *Rules) scopesChanged(now []engine.Scope) {
	r.scopes.mu.Lock()
	r.scopes.now = now
	r.scopes.mu.Unlock()
	r.scopes.record.Trigger()
}

// recordScopes writes the record for ReadScopes, if it has changed.
func (r *Rules) recordScopes(ctx context.Context) error {
	r.scopes.mu.Lock()
	now := r.scopes.now
	r.scopes.mu.Unlock()
	data, err := json.Marshal(now)
	if err != nil {
		return fmt.Errorf("encode the scopes of copies: %w", err)
	}
	return r.options.Store.Replace(ctx, copiesSecret, map[string][]byte{scopesKey: data})
}

// ReadScopes reads in which scopes an earlier agent had copies. A record that cannot be decoded is logged and ignored:
// copies of rules that were deleted, or leave this cluster out now, then stay, and are not marked as orphans. The error is that of the API server.
func ReadScopes(ctx context.Context, s *store.Store, log *slog.Logger) ([]engine.Scope, error) {
	secret, err := s.Read(ctx, copiesSecret)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []engine.Scope
	if err := json.Unmarshal(secret.Data[scopesKey], &out); err != nil {
		log.Warn("copies of rules that were deleted, or changed to leave this cluster out, while no agent ran may not be marked as orphans: the record of where copies are cannot be read, and is replaced when that changes",
			"secret", s.Namespace()+"/"+copiesSecret, "error", err)
		return nil, nil
	}
	return out, nil
}
