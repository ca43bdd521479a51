// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package syncrules

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// AnnotationSelections holds, on a copy, the Selection of each rule that made it, in the order of MadeBy. When the source
// is gone, it shows whether the present form of the rule had selected it. If so, the source was deleted or changed; if not,
// the rule may have been edited.
const AnnotationSelections = v1alpha1.Prefix + "rule-selections"

// Selection is a hash of the fields that say what the rule selects, and where it puts copies. What is known about sources for
// one form of a rule is known for another form with the same Selection.
func (r *Rule) Selection() string { return r.selection }

// selectionOf computes Selection. Mutations are part of it only if they may move a copy.
func selectionOf(spec *v1alpha1.ResourceSyncRuleSpec, moves bool) string {
	fields := struct {
		Kind    v1alpha1.GroupVersionKind
		Matches [][]v1alpha1.SyncRuleMatch
		Rules   []v1alpha1.SyncRule
		FanOut  *v1alpha1.NamespaceSelector `json:",omitempty"`
	}{Kind: spec.GVK, FanOut: spec.TargetNamespaces}
	if moves {
		fields.Rules = spec.Rules
	} else {
		for i := range spec.Rules {
			fields.Matches = append(fields.Matches, slices.Concat(spec.Rules[i].Matches)) // nil and empty are the same
		}
	}
	data, err := json.Marshal(fields)
	if err != nil {
		return "" // never: API types always encode
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}

// Selections returns the Selections that a copy carries, for the rules of MadeBy.
func Selections(copied *unstructured.Unstructured) []string {
	if v := annotation(copied, AnnotationSelections); v != "" {
		return strings.Split(v, ",")
	}
	return nil
}

func selections(rules []*Rule) string {
	all := make([]string, len(rules))
	for i, r := range rules {
		all[i] = r.selection
	}
	return strings.Join(all, ",")
}

// SelectedBy says whether a rule had its present selection when it made a copy, whose MadeBy and Selections are given.
// Otherwise the rule was edited since.
func SelectedBy(madeBy, selections []string, rule, selection string) bool {
	i := slices.Index(madeBy, rule)
	return i >= 0 && i < len(selections) && selections[i] == selection
}
