// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"reflect"
	"slices"
	"testing"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// What is compared with the served CRDs is what the types have.
func TestFieldsOf(t *testing.T) {
	t.Parallel()
	fields := fieldsOf(reflect.TypeFor[v1alpha1.ResourceSyncRule]())
	for _, want := range []string{"spec.rules.match.objectKey.namespace", "spec.targets.matchLabels", "status.sources.lag", "status.conditions"} {
		if !slices.Contains(fields, want) {
			t.Errorf("no %s in %q", want, fields)
		}
	}
	if got := without([]string{"a", "a.b", "ab", "c"}, []string{"c"}); !slices.Equal(got, []string{"a", "ab"}) {
		t.Errorf("without: %q", got)
	}
}

func TestShellWord(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"alpha": "alpha", "user@host:6443/x": "user@host:6443/x", "a b": "'a b'", "$(rm)": "'$(rm)'", "it's": `'it'\''s'`, "": "''",
	} {
		if got := shellWord(in); got != want {
			t.Errorf("shellWord(%q) = %s, not %s", in, got, want)
		}
	}
}
