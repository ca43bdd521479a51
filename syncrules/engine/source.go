// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules/engine/place"
	"github.com/roster-mesh/roster/syncrules/engine/problem"
	"github.com/roster-mesh/roster/syncrules/engine/servers"
)

// What Options.Classify may say of an error.
var (
	// ErrUnreachable is returned when no answer came.
	ErrUnreachable = problem.ErrUnreachable
	// ErrForbidden is returned when the credential is not accepted or lacks a right.
	ErrForbidden = problem.ErrForbidden
	// ErrKindUnknown is returned when the kind is not served.
	ErrKindUnknown = problem.ErrKindUnknown
	// ErrRestored is returned when a source went back in time and its owner has not confirmed that.
	ErrRestored = problem.ErrRestored
)

type (
	// Scope is one watch.
	Scope = place.Scope
	// Key is the place of a copy.
	Key = place.Key
	// Sink takes what a Source finds.
	Sink = place.Sink
	// Source is an API server to watch. It must be comparable (a pointer): a peer that is set with another Source
	// is watched anew.
	Source = servers.Source
	// Target is the local API server. Errors are of k8s.io/apimachinery/pkg/api/errors, or what Options.Classify knows.
	Target = servers.Target
	// Writer writes to an API server.
	Writer = servers.Writer
)

// Peer is another cluster of the group.
type Peer struct {
	ClusterID string
	// Name is the name of its Cluster object, for people; it may be empty.
	Name string
	// Cluster is its Cluster object here, for templates; nil when it is not known. It is not changed later.
	Cluster *v1alpha1.Cluster
	// Features are the ClusterFeatures of the cluster, complete if FeaturesKnown. Until they are, rules
	// with clusterFeatureMatch leave its copies as they are.
	Features      []*v1alpha1.ClusterFeature
	FeaturesKnown bool
	// Source is nil while the cluster cannot or must not be read: its copies are frozen.
	Source Source
	// Why explains a nil Source to people: disabled, no credential, not reachable.
	Why string
	// Refused says why this cluster takes nothing from it, by its own choice; "" normally. Then its copies are frozen,
	// whatever becomes of rules. There is no Source.
	Refused string
	// Left says that the cluster is no longer in the group: its copies become orphans.
	Left bool
}
