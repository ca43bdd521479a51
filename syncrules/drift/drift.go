// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package drift

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
)

// Kind is how an object differs from what a rule would have in its place.
type Kind string

const (
	// None: it does not, or nothing would be done about it.
	None Kind = ""
	// Missing: there is none.
	Missing Kind = "Missing"
	// Differs: it has other content.
	Differs Kind = "Differs"
	// Extra: it is a copy that would be deleted, or left as an orphan.
	Extra Kind = "Extra"
	// Mortal: it is a copy with the right content, which is deleted with its rule by what is written on it, although the rule
	// says otherwise now. Of all marks only this one counts: what a rule that looks leaves undone must not delete anything.
	Mortal Kind = "RuleDeletionPolicy"
)

// Of reads a decision that nobody acts on. local is what is in the place, nil for nothing.
func Of(d syncrules.Decision, local *unstructured.Unstructured) Kind {
	switch d.Action {
	case syncrules.Create:
		return Missing
	case syncrules.Update:
		switch {
		case local == nil || !syncrules.Equivalent(local, d.Desired):
			return Differs
		case deletes(local) && !deletes(d.Desired):
			return Mortal
		}
		return None
	case syncrules.UpdateStatus:
		return Differs
	case syncrules.Delete, syncrules.MarkOrphan:
		return Extra
	case syncrules.None, syncrules.Freeze, syncrules.Wait, syncrules.Conflict:
	}
	return None
}

// deletes says that a copy is deleted with its rule.
func deletes(copied *unstructured.Unstructured) bool {
	return len(syncrules.MadeBy(copied)) > 0 && syncrules.RuleDeletion(copied) == v1alpha1.DeletionDelete
}

// Text says it to people; "" for None.
func (k Kind) Text(d syncrules.Decision) string {
	switch k {
	case Missing:
		return "is missing, and would be created"
	case Differs:
		return "differs, and would be changed"
	case Extra:
		if d.Action == syncrules.Delete {
			return "would be deleted: " + d.Reason
		}
		return "would be left as an orphan: " + d.Reason
	case Mortal:
		return "still carries ruleDeletionPolicy Delete: it is deleted if the rule is, unless the rule writes before"
	case None:
	}
	return ""
}

// Sum says how many objects differ, by kind, and which kind most of them have.
func Sum(counts map[Kind]int32) (most Kind, text string) {
	kinds := slices.SortedFunc(maps.Keys(counts), func(a, b Kind) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	words := map[Kind]string{Missing: "missing", Differs: "different", Extra: "to be deleted or left as orphans", Mortal: "with ruleDeletionPolicy Delete still"}
	var parts []string
	for _, k := range kinds {
		parts = append(parts, fmt.Sprintf("%d %s", counts[k], words[k]))
	}
	if len(kinds) > 0 {
		most = kinds[0]
	}
	return most, strings.Join(parts, ", ")
}

// Condition is what a rule that only looks says of all objects. example is about one of most; settled says that all of them
// were looked at.
func Condition(counts map[Kind]int32, example string, settled bool) metav1.Condition {
	most, text := Sum(counts)
	switch {
	case most != None:
		return metav1.Condition{Status: metav1.ConditionTrue, Reason: string(most), Message: "not as the rule would have them: " + text + "; such as " + example}
	case !settled:
		return metav1.Condition{Status: metav1.ConditionUnknown, Reason: "Unknown", Message: "not all objects were looked at: see the condition Ready"}
	}
	return metav1.Condition{Status: metav1.ConditionFalse, Reason: "NoDrift", Message: "all objects are as the rule would have them"}
}
