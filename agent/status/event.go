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

// announce sends the one event that tells most about a status which was written: what got worse before what got better,
// and what a person looks at before what it follows from.
func (w *Writer) announce(c *v1alpha1.Cluster, now []metav1.Condition) {
	if told := telling(c.Status.Conditions, now); told != nil {
		kind := kube.EventNormal
		if bad(*told) {
			kind = kube.EventWarning
		}
		w.o.Events.Event(w.o.Client.Clusters().Kind(), c, kind, told.Type+string(told.Status), strings.TrimSuffix(told.Reason+": "+told.Message, ": "))
	}
}

// telling is the condition to tell of; nil for none. Of what was not known before only what is True is news.
func telling(before, now []metav1.Condition) *metav1.Condition {
	var best *metav1.Condition
	for _, kind := range []string{
		v1alpha1.ConditionLocalConflict, v1alpha1.ConditionReady, v1alpha1.ConditionClustersSynced, v1alpha1.ConditionMember, v1alpha1.ConditionRemovalsConfirmed,
	} {
		is, was := meta.FindStatusCondition(now, kind), meta.FindStatusCondition(before, kind)
		switch {
		case is == nil, was != nil && was.Status == is.Status, was == nil && is.Status != metav1.ConditionTrue:
		case bad(*is):
			return is
		case best == nil, kind == v1alpha1.ConditionClustersSynced:
			best = is
		}
	}
	return best
}

// bad says that a condition is one to do something about.
func bad(c metav1.Condition) bool {
	return (c.Status == metav1.ConditionTrue) == (c.Type == v1alpha1.ConditionLocalConflict)
}
