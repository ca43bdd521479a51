// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules/engine/visible"
	"github.com/roster-mesh/roster/syncrules/where"
)

// clusters is the local cluster and the others of the group.
type clusters struct {
	local    *v1alpha1.Cluster // nil when it is not known; never changed
	snapshot clusterSnapshot   // of local
	peers    map[string]*peer
	ids      []string // of peers, sorted
}

func newClusters() clusters { return clusters{peers: map[string]*peer{}} }

// clusterSnapshot is a Cluster object as templates see it. The serial tells one from all others.
type clusterSnapshot struct {
	cluster *v1alpha1.Cluster // nil when it is not known; never changed
	serial  uint64
}

// takeSnapshotLocked takes in a Cluster object, and says whether templates see it differently now.
func (e *Engine) takeSnapshotLocked(s *clusterSnapshot, now *v1alpha1.Cluster) bool {
	if equality.Semantic.DeepEqual(s.cluster, now) {
		return false
	}
	e.rules.serial++
	*s = clusterSnapshot{now, e.rules.serial}
	return true
}

// setClusterLocked takes in the local Cluster object: targets look at some of it, templates at most of it.
func (e *Engine) setClusterLocked(now *v1alpha1.Cluster) {
	was := e.clusters.local
	if was == now {
		return
	}
	e.clusters.local = now
	targeted := !where.Same(was, now)
	if targeted {
		e.indexKindsLocked() // which rules are in force depends on which want copies here
	}
	seen := e.takeSnapshotLocked(&e.clusters.snapshot, visible.Of(now))
	for _, r := range e.rules.byName {
		if targeted && r.compiled != nil && r.compiled.HasTargets() || seen && r.reads {
			e.staleRuleLocked(r)
		}
	}
}

// anyReadsLocked says that copies of some rule depend on Cluster objects.
func (e *Engine) anyReadsLocked() bool {
	return e.rules.any(func(r *rule) bool { return r.reads })
}
