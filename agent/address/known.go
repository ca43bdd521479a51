// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package address

import (
	"slices"
	"time"

	"github.com/roster-mesh/roster/kube"
)

// known is what is known of the addresses of the mesh port. The zero value knows nothing.
type known struct {
	asked   bool // the Service was read, or reading it failed
	service *kube.Service
	refused error // why the Service cannot be read
	nodes   []*kube.Node

	endpoints []string  // empty if nothing is known, or if the agent's own address is used
	own       bool      // the agent's own address is used
	missing   error     // why there is no address, nil if there is one
	since     time.Time // since when missing is set
}

// update computes the endpoints, and returns whether they have changed.
func (k *known) update(now time.Time) (changed bool) {
	if !k.asked {
		return false
	}
	endpoints, err := []string(nil), k.refused
	if err == nil {
		endpoints, err = serviceEndpoints(k.service, k.nodes)
	}
	if err != nil {
		if k.missing == nil {
			k.since = now
		}
		k.missing = err
		return false // the last known addresses may still work
	}
	own := len(endpoints) == 0
	changed = own != k.own || !slices.Equal(endpoints, k.endpoints)
	k.endpoints, k.own, k.missing = endpoints, own, nil
	return changed
}
