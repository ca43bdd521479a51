// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMembersByState(t *testing.T) {
	got := membersByState(`# HELP roster_mesh_members Other pinned clusters by state.
# TYPE roster_mesh_members gauge
roster_mesh_members{state="alive"} 2
roster_mesh_members{state="failed"} 1
roster_mesh_members_total{state="suspect"} 7
roster_mesh_members{state="suspect"} many
`)
	if diff := cmp.Diff(map[string]int{"alive": 2, "failed": 1}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
