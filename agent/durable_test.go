// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/kube/history"
)

// During a freeze the note stays the one from before, so that the next start notices the restore, too.
func TestPositionStaysDuringFreeze(t *testing.T) {
	frozen, kind := false, schema.GroupVersionKind{Version: "v1", Kind: "Thing"}
	positions := history.TrustingPositions(func(schema.GroupVersionKind) bool { frozen = true; return true })
	note := func() []byte { return notePosition(positions, func() bool { return frozen }, kind) }
	positions.AcceptList(kind, positions.At(kind), "", "100", history.SeenObject{})
	if note() == nil {
		t.Error("there is no note before the restore")
	}
	positions.AcceptList(kind, positions.At(kind), "", "50", history.SeenObject{})
	if note := note(); note != nil || !frozen {
		t.Errorf("during the freeze the note is %s", note)
	}
	if frozen = false; note() == nil {
		t.Error("there is no note after the confirmation")
	}
	late := notePosition(positions, func() bool { // a restore is noticed right after it was asked
		positions.AcceptList(kind, positions.At(kind), "", "20", history.SeenObject{})
		return false
	}, kind)
	if !bytes.Contains(late, []byte(`"50"`)) {
		t.Errorf("the note is of the history after the restore: %s", late)
	}
}
