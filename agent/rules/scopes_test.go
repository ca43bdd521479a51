// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/syncrules/engine"
)

// The next agent knows where copies are, whatever is on its disk.
func TestScopesAreRecorded(t *testing.T) {
	w := newWorld(t)
	read := func(want ...engine.Scope) {
		t.Helper()
		if got, err := ReadScopes(t.Context(), w.options.Store, w.options.Log); !slices.Equal(got, want) || err != nil {
			t.Errorf("recorded: %v, want %v (%v)", got, want, err)
		}
	}
	read()
	scope := engine.Scope{GVK: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, Namespace: "shop", LabelSelector: "l"}
	w.scopesChanged([]engine.Scope{scope})
	for range 2 {
		if err := w.recordScopes(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	read(scope)
	if n, _ := w.api.Writes(); n != 1 {
		t.Errorf("%d writes of what did not change", n)
	}
	w.api.SetObject(copiesSecret, fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Secret","data":{%q:"e30="}}`, scopesKey))
	read()
}
