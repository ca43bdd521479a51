// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// passingMost is for how long a state of a cluster that most likely will not last is not written, nor what changes of
// one that is synced and stays so. A cluster that joins goes through five states in this time, in every other cluster,
// and people want to know the last.
const passingMost = time.Second

// passing remembers since when the status of Cluster objects is another than the one written, by name.
type passing struct {
	mu    sync.Mutex
	since map[string]time.Time
}

// wait is for how long the status that an object should have is not to be written yet, 0 for not at all.
func (p *passing) wait(name string, lasting bool, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	since, known := p.since[name]
	if left := passingMost - now.Sub(since); !lasting && (!known || left > 0) {
		if known {
			return left
		}
		if p.since == nil {
			p.since = map[string]time.Time{}
		}
		p.since[name] = now
		return passingMost
	}
	return 0
}

// over forgets an object whose status is what it should be, or was just written.
func (p *passing) over(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.since, name)
}

// lasting says that a status tells of something that does not go away by itself.
func (v *view) lasting() bool {
	return v.problem != "" || v.removed != "" || v.left != "" || len(v.orders) > 0 || v.claims > 1 || v.foreign
}

// announce sends the one event that tells most about a status which was written: what got worse before what got better,
// and what a person looks at before what it follows from.
func (s *session) announce(c *v1alpha1.Cluster, now []metav1.Condition) {
	if told := telling(c.Status.Conditions, now); told != nil {
		kind := kube.EventNormal
		if bad(*told) {
			kind = kube.EventWarning
		}
		s.events.Event(s.client.Clusters().Kind(), c, kind, told.Type+string(told.Status), strings.TrimSuffix(told.Reason+": "+told.Message, ": "))
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
