// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/roster-mesh/roster/mesh"
)

func TestMembersByState(t *testing.T) {
	got := membersByState(fmt.Sprintf(`# HELP roster_mesh_members Other pinned clusters by state.
# TYPE roster_mesh_members gauge
roster_mesh_members{state="%v"} 2
roster_mesh_members{state="%v"} 1
roster_mesh_members_total{state="%[3]v"} 7
roster_mesh_members{state="%[3]v"} many
`, mesh.Alive, mesh.Failed, mesh.Suspect))
	if diff := cmp.Diff(map[string]int{"Alive": 2, "Failed": 1}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
