// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"log/slog"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/syncrules/engine"
)

// Where copies are is known to the next agent, whatever it has on its disk.
func TestScopesAreRecorded(t *testing.T) {
	secret := map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": copiesSecret, "namespace": "p"}}
	api, client := objectServer(t, map[string]map[string]any{copiesSecret: secret})
	s := &session{client: client, private: &private{client: client, namespace: "p"}, log: slog.New(slog.DiscardHandler)}
	s.newLoops()
	if got, err := s.private.scopes(t.Context(), s.log); len(got) > 0 || err != nil {
		t.Errorf("at first: %v, %v", got, err)
	}
	want := []engine.Scope{{GVK: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, Namespace: "shop", LabelSelector: "l"}}
	s.scopesChanged(want)
	if err := s.doChore(t.Context(), choreScopes); err != nil {
		t.Fatal(err)
	}
	if got, err := s.private.scopes(t.Context(), s.log); !slices.Equal(got, want) || err != nil {
		t.Errorf("recorded: %v, %v", got, err)
	}
	api.set(copiesSecret, map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": secret["metadata"], "data": map[string]any{scopesKey: "e30="}})
	if got, err := s.private.scopes(t.Context(), s.log); len(got) > 0 || err != nil {
		t.Errorf("what cannot be read: %v, %v", got, err)
	}
}
