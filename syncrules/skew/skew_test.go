// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package skew

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

func TestUnknown(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		`{}`: nil,
		`{"spec":{"paused":true,"targets":{"matchLabels":{"a":"b"},"matchExpressions":[{"key":"k","operator":"In","values":["v"]}]}}}`: nil,
		`{"spec":{"future":"x","targets":{"moons":["io"]},"rules":[{"match":[{"name":"a"},{"orbit":1}]}]}}`:                            {"spec.future", "spec.rules[0].match[1].orbit", "spec.targets.moons"},
		`{"spec":{"Paused":true}}`: {"spec.Paused"},
		`{"speck":null}`:           {"speck"},
	} {
		var content map[string]any
		if err := utiljson.Unmarshal([]byte(text), &content); err != nil {
			t.Fatal(err)
		}
		var out struct {
			Spec v1alpha1.ResourceSyncRuleSpec `json:"spec"`
		}
		got, err := Unknown(content, &out)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: error %v, want (-), got (+):\n%s", text, err, diff)
		}
	}
	if _, err := Unknown(map[string]any{"paused": "text"}, &v1alpha1.ResourceSyncRuleSpec{}); err == nil {
		t.Error("a field of a wrong type is no error")
	}
}

// A member decides on the names of fields; what is shown of them is bounded, and without control characters.
func TestNoteIsBounded(t *testing.T) {
	t.Parallel()
	var fields []string
	for i := range 1000 {
		fields = append(fields, fmt.Sprintf("%d\x1b[31m%s", i, strings.Repeat("\u202e", 1000)))
	}
	note := Note(fields)
	if len(note) > maxFields*6*maxPath || strings.ContainsAny(note, "\x1b\u202e") || !strings.HasSuffix(note, ", 992 more") {
		t.Errorf("a note of %d bytes: %q", len(note), note)
	}
}

// What agents of schema 6 make of a stub: decoding that ignores what it does not know, and a rule that is paused.
func TestStubIsPausedForEveryVersion(t *testing.T) {
	t.Parallel()
	data, err := json.Marshal(Stub(v1alpha1.GroupVersionKind{Version: "v1", Kind: "Secret"}))
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"groupVersionKind":{"version":"v1","kind":"Secret"},"paused":true}`; string(data) != want {
		t.Errorf("a stub is %s, and agents that are out there know %s", data, want)
	}
}

// A rule is for the agents that know the newest of its fields.
func TestNeeds(t *testing.T) {
	t.Parallel()
	named := &v1alpha1.ClusterSelector{Names: []string{"alpha"}}
	for _, c := range []struct {
		spec v1alpha1.ResourceSyncRuleSpec
		want int32
	}{
		{v1alpha1.ResourceSyncRuleSpec{Paused: true, Targets: &v1alpha1.ClusterSelector{}}, 0},
		{v1alpha1.ResourceSyncRuleSpec{Targets: named}, 8},
		{v1alpha1.ResourceSyncRuleSpec{Targets: named, Mode: v1alpha1.ModeObserve}, 9},
		{v1alpha1.ResourceSyncRuleSpec{ConflictPolicy: v1alpha1.ConflictAdopt}, 9},
		{v1alpha1.ResourceSyncRuleSpec{Mode: v1alpha1.ModeObserve, TargetNamespaces: &v1alpha1.NamespaceSelector{}}, 10},
		{v1alpha1.ResourceSyncRuleSpec{Mode: v1alpha1.ModeSync}, 9}, // they would refuse the field, whatever it says
	} {
		if got := Needs(&c.spec); got != c.want {
			t.Errorf("Needs(%+v) is %d, want %d", c.spec, got, c.want)
		}
	}
}

func TestRefuse(t *testing.T) {
	t.Parallel()
	r := &v1alpha1.ResourceSyncRule{}
	if err := Refuse(r); err != nil {
		t.Errorf("a rule without a mark: %v", err)
	}
	metav1.SetMetaDataAnnotation(&r.ObjectMeta, v1alpha1.AnnotationNotUnderstood, "spec.future")
	if err := Refuse(r); !errors.Is(err, ErrNotUnderstood) || !strings.Contains(err.Error(), "spec.future") {
		t.Errorf("a rule with a mark: %v", err)
	}
}
