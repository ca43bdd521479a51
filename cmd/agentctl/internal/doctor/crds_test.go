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
