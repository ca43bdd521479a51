// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package profiles

import "k8s.io/apimachinery/pkg/util/validation"

// Flags are --publish-cluster-profiles, --publish-namespace and --publish-cluster-set.
type Flags struct {
	ClusterProfiles       bool
	Namespace, ClusterSet string
}

// Check tells bad which flag is wrong. private is the namespace that holds the key of the cluster.
func (f Flags) Check(private string, bad func(flag, format string, args ...any)) {
	check := func(flag, value string) {
		if msgs := validation.IsDNS1123Label(value); value != "" && len(msgs) > 0 {
			bad(flag, "%q is not a name: %s", value, msgs[0])
		} else if value != "" && !f.ClusterProfiles {
			bad(flag, "is of no use without --publish-cluster-profiles")
		}
	}
	check("publish-namespace", f.Namespace)
	check("publish-cluster-set", f.ClusterSet)
	if f.Namespace == private {
		bad("publish-namespace", "%s holds the key of this cluster: name one that others may read", private)
	}
}
