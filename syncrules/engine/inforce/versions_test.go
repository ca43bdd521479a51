// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package inforce

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A rule takes all versions that it is about, or none.
func TestClash(t *testing.T) {
	var a, b Version
	want := func(of *Version, version string) Wish {
		kind := "A"
		if of == &b {
			kind = "B"
		}
		return Wish{of, schema.GroupVersionKind{Group: "example.com", Version: version, Kind: kind}}
	}
	for _, step := range []struct {
		rule   string
		wishes []Wish
		clash  []string // what it says
		a, b   string   // whose the versions are then
	}{
		{"first", []Wish{want(&a, "v1")}, nil, "first v1", " "},
		{"second", []Wish{want(&a, "v1")}, nil, "first v1", " "},
		{"third", []Wish{want(&b, "v1"), want(&a, "v2")}, []string{"v2 of A.example.com", "rule first", "about v1"}, "first v1", " "},
		{"fourth", []Wish{want(&b, "v2"), want(&a, "v1")}, nil, "first v1", "fourth v2"},
		{"fifth", []Wish{want(&b, "v1")}, []string{"v1 of B.example.com", "rule fourth", "about v2"}, "first v1", "fourth v2"},
	} {
		clash := Clash(step.rule, step.wishes)
		if (clash == "") != (step.clash == nil) {
			t.Errorf("%s: %q", step.rule, clash)
		}
		for _, part := range step.clash {
			if !strings.Contains(clash, part) {
				t.Errorf("%s: %q does not say %q", step.rule, clash, part)
			}
		}
		if gotA, gotB := a.Rule+" "+a.Version, b.Rule+" "+b.Version; gotA != step.a || gotB != step.b {
			t.Errorf("%s: the versions are %q and %q, want %q and %q", step.rule, gotA, gotB, step.a, step.b)
		}
	}
}
