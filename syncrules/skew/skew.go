// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package skew

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// ErrNotUnderstood is returned for a rule that has fields which this version of the agent does not know.
var ErrNotUnderstood = errors.New("not understood")

// Reason is that of the condition Ready of a rule which is not understood.
const Reason = "NotUnderstood"

// What is shown of fields that are not known: a member decides on their names, and on how many there are.
const (
	maxFields = 8
	maxPath   = 96
)

// Unknown decodes content into the struct that out points to, and returns the paths of all fields that the struct does not
// have, sorted and without duplicates.
func Unknown(content map[string]any, out any) ([]string, error) {
	err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(content, out, true)
	strict, ok := runtime.AsStrictDecodingError(err)
	if !ok {
		return nil, err
	}
	var paths []string
	for _, e := range strict.Errors() {
		path, _ := strings.CutPrefix(e.Error(), "unknown field ")
		paths = append(paths, strings.Trim(path, `"`))
	}
	slices.Sort(paths)
	return slices.Compact(paths), nil
}

// Note is the value of the annotation v1alpha1.AnnotationNotUnderstood about these fields.
func Note(fields []string) string {
	more := len(fields) - maxFields
	var names []string
	for _, path := range fields[:min(len(fields), maxFields)] {
		quoted := strconv.QuoteToASCII(path[:min(len(path), maxPath)]) // a member may have sent it
		names = append(names, quoted[1:len(quoted)-1])
	}
	if more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}

// Stub stands for a rule that is not understood. All versions of the agent and of the CRD take it, and it freezes all
// copies that the rule has made: a paused rule writes and deletes nothing. It has no clauses, which might be invalid, or
// select more, without the fields that are left out.
func Stub(kind v1alpha1.GroupVersionKind) v1alpha1.ResourceSyncRuleSpec {
	return v1alpha1.ResourceSyncRuleSpec{GVK: kind, Paused: true}
}

// Needs returns the first schema version whose agents understand a rule, or 0 if those do that ignore what they do not know
// (schema 6 and earlier): they must not get this rule in any other form than its stub.
func Needs(spec *v1alpha1.ResourceSyncRuleSpec) int32 {
	if spec.TargetNamespaces != nil {
		return 10
	}
	if spec.Mode != "" || spec.ConflictPolicy != "" {
		return 9
	}
	if t := spec.Targets; t != nil && (len(t.Names) > 0 || len(t.Regions) > 0 || t.Version != "" || len(t.Providers) > 0) {
		return 8
	}
	return 0
}

// Refuse returns an error if the rule is marked as one that is not understood.
func Refuse(r *v1alpha1.ResourceSyncRule) error {
	fields, marked := r.Annotations[v1alpha1.AnnotationNotUnderstood]
	if !marked {
		return nil
	}
	return fmt.Errorf("%w: the agent here does not know %s. The copies of this rule stay as they are until the agent is upgraded", ErrNotUnderstood, fields)
}
