// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/syncrules/engine"
)

// scopes is where the engine keeps copies. It is recorded at the API server, so that the copies of a rule which is
// deleted while no agent runs are found and judged by the next one, on whatever machine.
type scopes struct {
	mu  sync.Mutex
	now []engine.Scope
}

// scopesChanged implements engine.Options.ScopesChanged.
func (s *session) scopesChanged(now []engine.Scope) {
	s.scopes.mu.Lock()
	s.scopes.now = now
	s.scopes.mu.Unlock()
	s.chores.add(choreScopes)
}

func (s *session) recordScopes(ctx context.Context) error {
	s.scopes.mu.Lock()
	now := s.scopes.now
	s.scopes.mu.Unlock()
	return s.private.recordScopes(ctx, now)
}

// scopes reads what recordScopes has written. Where it cannot be understood nothing is lost: copies whose rule is gone
// stay as they are, and are not marked as orphans.
func (p *private) scopes(ctx context.Context, log *slog.Logger) ([]engine.Scope, error) {
	secret, err := p.client.Secrets(p.namespace).Read(ctx, copiesSecret)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read Secret %s/%s: %w", p.namespace, copiesSecret, err)
	}
	var out []engine.Scope
	if err := json.Unmarshal(secret.Data[scopesKey], &out); err != nil {
		log.Warn("copies of rules that were deleted while no agent ran may not be marked as orphans: the record of where copies are cannot be read, and is replaced when that changes",
			"secret", p.namespace+"/"+copiesSecret, "error", err)
		return nil, nil
	}
	return out, nil
}

// recordScopes keeps what scopes reads; it writes only when that changes.
func (p *private) recordScopes(ctx context.Context, now []engine.Scope) error {
	data, err := json.Marshal(now)
	if err != nil {
		return fmt.Errorf("encode the scopes of copies: %w", err)
	}
	return p.record(ctx, &kube.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: copiesSecret, Namespace: p.namespace, Labels: managedLabels()},
		Data:       map[string][]byte{scopesKey: data},
	})
}
