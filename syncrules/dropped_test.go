// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package syncrules

import (
	"slices"
	"testing"
)

func TestDropped(t *testing.T) {
	given := object(t, `{apiVersion: g/v1, kind: K, metadata: {name: n, labels: {a: b}}, status: {x: 1}, top: 1,
		spec: {kept: 1, gone: x, none: null, empty: [], deep: {gone: 2, kept: 3}, list: [{a: 1, b: 2}], other: [1, 2], zero: 0}}`)
	kept := object(t, `{apiVersion: g/v1, kind: K, metadata: {name: n}, spec: {kept: 2, deep: {kept: 3}, list: [{a: 1}], other: [1], default: x}}`)
	want := []string{"spec.deep.gone", "spec.gone", "spec.list[0].b", "top"}
	if got := Dropped(given, kept); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := Dropped(kept, kept); len(got) != 0 {
		t.Errorf("%q of what is the same", got)
	}
}
