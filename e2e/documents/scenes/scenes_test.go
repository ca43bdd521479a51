// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package scenes

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/roster-mesh/roster/e2e/documents"
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
	for _, d := range documents.All() {
		for _, begins := range d.Typed[documents.Scenes] {
			if line, err := documents.Command(filepath.Join(r.root, d.Path), begins); err != nil || !r.typed[d.Path+": "+line] {
				t.Errorf("%s: it did not type %s, %v", d.Path, begins, err)
			}
		}
	}
}
