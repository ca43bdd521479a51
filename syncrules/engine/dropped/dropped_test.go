// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package dropped

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	out := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(data, &out.Object); err != nil { // integers, as from an API server
		t.Fatal(err)
	}
	return out
}

func TestFields(t *testing.T) {
	given := object(t, `{apiVersion: g/v1, kind: K, metadata: {name: n, labels: {a: b}}, status: {x: 1}, top: 1,
		spec: {kept: 1, gone: x, none: null, empty: [], deep: {gone: 2, kept: 3}, list: [{a: 1, b: 2}], other: [1, 2], zero: 0, nought: 0.0}}`)
	kept := object(t, `{apiVersion: g/v1, kind: K, metadata: {name: n}, spec: {kept: 2, deep: {kept: 3}, list: [{a: 1}], other: [1], default: x}}`)
	want := []string{"spec.deep.gone", "spec.gone", "spec.list[0].b", "top"}
	if got := Fields(given, kept); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := Fields(kept, kept); len(got) != 0 {
		t.Errorf("%q of what is the same", got)
	}
}

// The time for an object that is nested as deeply as servers accept must be linear in its size, not quadratic: it is spent
// after each write.
func TestDeepObjectsCostTheirLength(t *testing.T) {
	var deep any = map[string]any{"kept": int64(1)}
	for range 9_000 {
		deep = map[string]any{strings.Repeat("k", 60): deep, "n": int64(1)}
	}
	kept := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "g/v1", "kind": "K", "spec": deep}}
	given := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "g/v1", "kind": "K", "spec": deep, "other": "x"}}
	allocated := testing.AllocsPerRun(1, func() {
		if got := Fields(given, kept); !slices.Equal(got, []string{"other"}) {
			t.Errorf("dropped %q", got)
		}
	})
	if allocated > 100_000 { // paths are not made that nobody is shown
		t.Errorf("%v allocations", allocated)
	}
}
