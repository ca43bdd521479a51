// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/syncrules/engine/problem"
)

// maxOrphans is how many orphans a condition names.
const maxOrphans = 8

// orphansConditionLocked names the orphans of a rule in the kinds and namespaces that it is about now.
func (e *Engine) orphansConditionLocked(r *rule) (metav1.Condition, bool) {
	n, names := e.local.copies.Orphans(r.name, maxOrphans)
	if n == 0 {
		return metav1.Condition{}, false
	}
	text := strings.Join(names, ", ")
	if more := n - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return metav1.Condition{
		Type: ConditionOrphans, Status: metav1.ConditionTrue, Reason: "NotMaintained", ObservedGeneration: r.gen,
		Message: problem.Bounded(fmt.Sprintf("%d copies that this rule made are not maintained any more: %s; delete them, or keep them: when the rule selects their source again they are taken back", n, text), problem.MaxMessage),
	}, true
}
