// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/replica"
	"github.com/roster-mesh/roster/syncrules"
)

// A rule whose owner is gone from the group stays where it is, as an orphan, and is not in force: what it has copied
// stays as it is. To obey it would leave a cluster that was removed with power over the others; to delete it would
// undo, all at once, what the others depend on.

// orphanRule marks a copy of a rule. The number of its entry goes: whoever is admitted again counts anew.
func (s *session) orphanRule(ctx context.Context, have *v1alpha1.ResourceSyncRule) error {
	want := have.DeepCopy()
	if want.Annotations == nil {
		want.Annotations = map[string]string{}
	}
	want.Annotations[v1alpha1.AnnotationOrphaned] = "true"
	delete(want.Annotations, annotationEntry)
	if _, err := s.client.Rules().Change(ctx, have, want); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("mark rule %s as orphaned: %w", have.Name, err)
	}
	return nil
}

// inForce is a rule as the engine is to obey it.
func inForce(rule *v1alpha1.ResourceSyncRule) *v1alpha1.ResourceSyncRule {
	if !isOrphan(rule) {
		return rule
	}
	paused := rule.DeepCopy()
	paused.Spec.Paused = true
	return paused
}

func isOrphan(rule *v1alpha1.ResourceSyncRule) bool {
	return syncrules.Owner(rule) != "" && has(rule, v1alpha1.AnnotationOrphaned)
}

// orphanAdvice is what the condition of an orphaned rule says.
func orphanAdvice(rule *v1alpha1.ResourceSyncRule) string {
	return fmt.Sprintf("cluster %s, which this rule is from, is not in the group any more: all copies stay as they are. Take the rule over (kubectl annotate rsr %s %s- %s- and kubectl label rsr %s %s-), or delete it",
		syncrules.Owner(rule), rule.Name, v1alpha1.AnnotationOwnerClusterID, v1alpha1.AnnotationOrphaned, rule.Name, v1alpha1.LabelOwnerClusterID)
}

// sameRule is the entry of a member that publishes the very rule that have is a copy of; nil when none does.
func sameRule(self string, have *v1alpha1.ResourceSyncRule, entries []replica.Entry) *replica.Entry {
	for i, e := range entries {
		if e.Origin == self || e.Status != replica.Live {
			continue
		}
		if other, err := decodeRule(e.Origin, e.Key.Name, e.Payload); err == nil && equality.Semantic.DeepEqual(other.Spec, have.Spec) {
			return &entries[i]
		}
	}
	return nil
}
