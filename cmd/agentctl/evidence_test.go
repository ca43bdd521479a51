// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/bundle"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/fleet"
)

// Doctor ends by itself before the bundle ends it, and looks at each cluster once.
func TestDoctorOfBundle(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "config")
	text := `{"current-context":"a","clusters":[{"name":"c","cluster":{"server":"http://localhost"}}],"contexts":[{"name":"a","context":{"cluster":"c"}}]}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	o := &bundle.Options{Group: &fleet.Group{Access: clusters.Access{Kubeconfig: path}, Contexts: []string{"b", "a", "c", "b"}, Timeout: time.Minute}}
	asked, err := doctorOptions(o)
	if err != nil || asked.Timeout >= o.Timeout || asked.Timeout < o.Timeout/2 || !slices.Equal(asked.PeerContexts, []string{"b", "c"}) {
		t.Errorf("%+v, %v", asked, err)
	}
}
