// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"fmt"
	"slices"
	"testing"
)

func TestRemovalLines(t *testing.T) {
	many := make([]string, maxWaiting+7)
	for i := range many {
		many[i] = fmt.Sprintf("c%03d", i)
	}
	message := JoinRemovals([]string{
		RemovalLine("a", "id-a", []string{"y", "x"}), RemovalLine("b", "id-b", nil), RemovalLine("c", "id-c", many),
	})
	if got, ok := RemovalWaits(message, "id-a"); !ok || !slices.Equal(got, []string{"x", "y"}) {
		t.Error(got, ok)
	}
	if got, ok := RemovalWaits(message, "id-b"); !ok || got != nil {
		t.Error(got, ok)
	}
	if got, ok := RemovalWaits(message, "id-c"); !ok || len(got) != maxWaiting+1 || got[maxWaiting] != "7 more" {
		t.Error(got, ok)
	}
	if _, ok := RemovalWaits(message, "id"); ok {
		t.Error("a removal that is not there")
	}
}
