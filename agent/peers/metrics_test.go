// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"fmt"
	"testing"

	"github.com/roster-mesh/roster/agent/apiconn"
	"github.com/roster-mesh/roster/syncrules/engine/metrics"
)

// Each cluster that is to be read has a label of its own, up to a bound; the others are ready when all of them are.
func TestReadyByCluster(t *testing.T) {
	_, o := options(t)
	p, _ := quiet(o)
	const others = 3
	for i := range metrics.MaxLabels + others {
		id := fmt.Sprintf("%03d", i)
		list(t, o, id)
		p.set(id, func(tr *tracked) { tr.running, tr.state.Access = true, apiconn.Ready })
	}
	list(t, o, "off")
	p.set("off", func(tr *tracked) { tr.running, tr.state.Access = true, apiconn.Disabled })
	p.set("ended", func(tr *tracked) { tr.state.Access = apiconn.Unreachable })

	last := fmt.Sprintf("%03d", metrics.MaxLabels+others-1)
	for name, want := range map[string]float64{"cluster-000": 1, metrics.OtherPeers: 1} {
		if got := byName(p); len(got) != metrics.MaxLabels+1 || got[name] != want {
			t.Errorf("%d series; %s is %v", len(got), name, got[name])
		}
	}
	for _, down := range []string{"000", last} {
		p.set(down, func(tr *tracked) { tr.state.Access = apiconn.Unreachable })
	}
	if got := byName(p); got["cluster-000"] != 0 || got["cluster-001"] != 1 || got[metrics.OtherPeers] != 0 {
		t.Errorf("down are 000 and %s: %v, %v; 001 is %v", last, got["cluster-000"], got[metrics.OtherPeers], got["cluster-001"])
	}
}

func byName(p *Peers) map[string]float64 {
	_, ready, _ := p.count()
	return p.named(ready)
}
