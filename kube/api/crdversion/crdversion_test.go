// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package crdversion

import (
	"errors"
	"strings"
	"testing"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

func TestReplaces(t *testing.T) {
	of := func(version, oldest string) map[string]string {
		return map[string]string{v1alpha1.AnnotationSchemaVersion: version, v1alpha1.AnnotationSchemaOldestAgent: oldest}
	}
	for name, test := range map[string]struct {
		have    map[string]string
		want    bool
		refused bool
	}{
		"of nobody":          {nil, true, false}, // the existing controller's
		"not a number":       {of("x", "x"), true, false},
		"the one before":     {of("5", "1"), true, false},
		"the same":           {of("6", "5"), true, false},
		"newer":              {of("7", "7"), false, false},
		"one is skipped":     {of("4", "1"), false, true},
		"more than one, too": {of("1", "1"), false, true},
	} {
		got, err := Replaces(test.have, of("6", "5"))
		if got != test.want || errors.Is(err, ErrSkipped) != test.refused || (err != nil) != test.refused {
			t.Errorf("%s: %t, %v", name, got, err)
		}
		if err != nil && !strings.Contains(err.Error(), "first upgrade to a version whose CRDs have schema 5") {
			t.Errorf("%s: it does not name the version that goes first: %v", name, err)
		}
	}
}

// If the agents of the version before were too old for the CRDs, Replaces would refuse every upgrade to them.
func TestVersionBeforeIsNotTooOld(t *testing.T) {
	if oldest, version := v1alpha1.SchemaOldestAgent, v1alpha1.SchemaVersion; oldest >= version {
		t.Errorf("schema %d is for agents of schema %d: give these a version of their own first", version, oldest)
	}
}
