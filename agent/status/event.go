// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// sendEvent sends one event about a status that was written, for the most important change: a change to the worse comes
// first.
func (w *Writer) sendEvent(c *v1alpha1.Cluster, now []metav1.Condition) {
	if shown := eventCondition(c.Status.Conditions, now); shown != nil {
		kind := kube.EventNormal
		if needsAttention(*shown) {
			kind = kube.EventWarning
		}
		w.o.Events.Event(w.o.Client.Clusters().Kind(), c, kind, shown.Type+string(shown.Status), strings.TrimSuffix(shown.Reason+": "+shown.Message, ": "))
	}
}

// eventCondition is the condition that the event is about; nil for none. A condition that did not exist before counts
// only if it is True.
func eventCondition(before, now []metav1.Condition) *metav1.Condition {
	var best *metav1.Condition
	for _, kind := range []string{
		v1alpha1.ConditionLocalConflict, v1alpha1.ConditionReady, v1alpha1.ConditionClustersSynced, v1alpha1.ConditionMember, v1alpha1.ConditionRemovalsConfirmed,
	} {
		is, was := meta.FindStatusCondition(now, kind), meta.FindStatusCondition(before, kind)
		switch {
		case is == nil, was != nil && was.Status == is.Status, was == nil && is.Status != metav1.ConditionTrue:
		case needsAttention(*is):
			return is
		case best == nil, kind == v1alpha1.ConditionClustersSynced:
			best = is
		}
	}
	return best
}

// needsAttention reports whether a user should act on a condition.
func needsAttention(c metav1.Condition) bool {
	return (c.Status == metav1.ConditionTrue) == (c.Type == v1alpha1.ConditionLocalConflict)
}
