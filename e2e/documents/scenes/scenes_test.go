// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package scenes

import (
	"fmt"
	"os"
	"testing"

	"github.com/roster-mesh/roster/e2e/harness"
)

func TestMain(m *testing.M) {
	if _, err := harness.InNetworkNamespace(); err != nil {
		fmt.Fprintln(os.Stderr, "e2e/documents/scenes:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// TestDocuments types what e2e/documents says that it does, and all of it: scenes build on each other.
func TestDocuments(t *testing.T) {
	r := start(t)
	for _, scene := range []struct {
		name string
		play func(*room)
	}{
		{"install", (*room).install},
		{"join", (*room).join},
		{"look", (*room).look},
		{"copies", (*room).copies},
		{"export", (*room).export},
		{"leave", (*room).leave},
		{"remove", (*room).remove},
		{"back", (*room).back},
		{"import", (*room).imports},
		{"several agents", (*room).several},
		{"uninstall", (*room).uninstall},
	} {
		t.Run(scene.name, func(t *testing.T) {
			inner := *r
			inner.T = t
			scene.play(&inner)
		})
		if t.Failed() {
			for _, c := range r.fleet.Clusters {
				t.Logf("last lines of agent %s:\n%s", c.Name, c.LogTail(10))
			}
			return
		}
	}
	if err := r.docs.Untyped("e2e/documents/scenes.TestDocuments"); err != nil {
		t.Error(err)
	}
}
