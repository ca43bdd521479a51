// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"slices"
	"strings"
	"testing"
)

func TestNewcomers(t *testing.T) {
	want := []Newcomer{
		{"gamma", "id-gamma", KeyFingerprint([]byte("gamma")), "alpha"},
		{"id-x", "id-x", KeyFingerprint([]byte("x")), "id-m"},
	}
	lines := NewcomerLine(want[0]) + "; " + NewcomerLine(want[1]) + " wait to be admitted: agentctl approve gamma"
	if got := ParseNewcomers(lines); !slices.Equal(got, want) {
		t.Errorf("read back as %v", got)
	}
	if got := ParseNewcomers("gamma (clusterID id, key short, introduced by alpha)"); len(got) != 0 {
		t.Errorf("%v", got)
	}
	if got := Approvals(" a/1, ,b/2,"); JoinApprovals(got) != "a/1,b/2" || len(Approvals("")) != 0 {
		t.Errorf("%q", strings.Join(got, "|"))
	}
}
