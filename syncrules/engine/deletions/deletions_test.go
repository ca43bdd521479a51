// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package deletions

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roster-mesh/roster/syncrules/engine/place"
)

func TestDeletions(t *testing.T) {
	t.Parallel()
	var d Deletions
	from := types.NamespacedName{Namespace: "a", Name: "x"}
	first, second := place.Key{Namespace: "a", Name: "x"}, place.Key{Namespace: "b", Name: "x"}
	d.Add(from, first)
	d.Add(from, first)
	d.Add(from, second)
	if d.Len() != 2 || !d.Has(from, first) || !d.Has(from, second) || d.Has(types.NamespacedName{Name: "x"}, first) {
		t.Errorf("%d copies are to follow", d.Len())
	}
	d.Drop(from, first)
	d.Drop(from, first)
	if d.Len() != 1 || d.Has(from, first) || !d.Has(from, second) {
		t.Errorf("%d copies are to follow after one is gone", d.Len())
	}
	d.DropAll(from)
	d.DropAll(from)
	if d.Len() != 0 || d.Has(from, second) {
		t.Errorf("%d copies are to follow after the source is there again", d.Len())
	}
	for i := range Max + 1 {
		d.Add(types.NamespacedName{Name: fmt.Sprint(i)}, first)
	}
	if d.Len() != Max {
		t.Errorf("%d are remembered", d.Len())
	}
}
