// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDedupe(t *testing.T) {
	t.Parallel()
	got := dedupe([]string{
		"Ready=False (X): no route", "Member=Unknown (Unknown): not met", "ClustersSynced=False (X): no route", "no route", "other",
	})
	want := []string{"Ready=False (X): no route", "Member=Unknown (Unknown): not met", "other"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
