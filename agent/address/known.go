// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package address

import (
	"slices"
	"time"

	"github.com/roster-mesh/roster/kube"
)

// known is what is known of where the mesh port is reached from other clusters. The zero value knows nothing.
type known struct {
	asked   bool // the Service was read, or cannot be
	service *kube.Service
	refused error // why it cannot be read
	nodes   []*kube.Node

	endpoints []string  // none when nothing is known, or when the agent's own address is to be used
	own       bool      // the agent's own address is all there is
	missing   error     // why there is no address now
	since     time.Time // when that began
}

// weigh finds the endpoints in what is known, and says whether they are others now.
func (k *known) weigh(now time.Time) (changed bool) {
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
		return false // what was found before may still lead here
	}
	own := len(endpoints) == 0
	changed = own != k.own || !slices.Equal(endpoints, k.endpoints)
	k.endpoints, k.own, k.missing = endpoints, own, nil
	return changed
}
