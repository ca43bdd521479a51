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

// AnnotationSelections holds, on a copy, the Selection of each rule that made it, in the order of MadeBy. When
// the source is gone, it tells whether the present form of the rule had selected it: if so it went at the source,
// else it may be the edit that let go of it.
const AnnotationSelections = v1alpha1.Prefix + "rule-selections"

// Selection is the same for two forms of a rule that select the same objects, and put their copies into the same
// places, by the same words. What is known of the sources under one of them stays known under the other.
func (r *Rule) Selection() string { return r.selection }

// selectionOf hashes what decides on the places of copies. Mutations do only where they may move a copy.
func selectionOf(spec *v1alpha1.ResourceSyncRuleSpec, moves bool) string {
	words := struct {
		Kind    v1alpha1.GroupVersionKind
		Matches [][]v1alpha1.SyncRuleMatch
		Rules   []v1alpha1.SyncRule
	}{Kind: spec.GVK}
	if moves {
		words.Rules = spec.Rules
	} else {
		for i := range spec.Rules {
			words.Matches = append(words.Matches, slices.Concat(spec.Rules[i].Matches)) // nil and empty are the same
		}
	}
	data, err := json.Marshal(words)
	if err != nil {
		return "" // API types always encode
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}

// Selections are the Selections that a copy carries, for the rules of MadeBy.
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

// SelectedBy says whether a rule, in its present form, is one of those that selected the source of a copy: rules and
// forms are MadeBy and Selections of the copy. Otherwise it may have let go of it by an edit.
func SelectedBy(rules, forms []string, name, selection string) bool {
	i := slices.Index(rules, name)
	return i >= 0 && i < len(forms) && forms[i] == selection
}
