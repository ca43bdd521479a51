// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import "testing"

// A source that stops matching takes its copy with it, or leaves an orphan where the rule wants that; one that
// matches again takes the orphan up.
func TestParityC03_SourceStopsMatching(t *testing.T) {
	r := newRoom(t)
	r.rule(t, r.alpha, "default", ofConfigMaps+"rules: [{"+forLabel("default")+"}]")
	r.rule(t, r.alpha, "orphan", ofConfigMaps+"deletionPolicy: Orphan, rules: [{"+forLabel("orphan")+"}]")
	r.rule(t, r.alpha, "content", ofConfigMaps+"rules: [{match: [{namespaces: [NS], content: [{key: data.v, value: wanted}]}]}]")
	put(t, r.gamma, configMaps, r.object(configMaps, "stops", "default", "one"))
	put(t, r.gamma, configMaps, r.object(configMaps, "orphaned", "orphan", "one"))
	put(t, r.gamma, configMaps, r.object(configMaps, "filled", "none", "wanted"))
	for name, value := range map[string]string{"stops": "one", "orphaned": "one", "filled": "wanted"} {
		r.eventuallyCopied(t, configMaps, name, value, r.alpha, r.beta)
	}
	put(t, r.gamma, configMaps, r.object(configMaps, "stops", "none", "two"))
	put(t, r.gamma, configMaps, r.object(configMaps, "orphaned", "none", "two"))
	put(t, r.gamma, configMaps, r.object(configMaps, "filled", "none", "other"))
	r.eventuallyGone(t, configMaps, "stops", r.alpha, r.beta)
	r.eventuallyGone(t, configMaps, "filled", r.alpha, r.beta)
	r.eventuallyOrphan(t, configMaps, "orphaned", "one", r.alpha, r.beta)
	put(t, r.gamma, configMaps, r.object(configMaps, "orphaned", "orphan", "three"))
	r.eventuallyCopied(t, configMaps, "orphaned", "three", r.alpha, r.beta)
	// The same, seen only after a restart.
	without(t, r.beta, func() { put(t, r.gamma, configMaps, r.object(configMaps, "orphaned", "default", "four")) })
	r.eventuallyCopied(t, configMaps, "orphaned", "four", r.alpha, r.beta)
	without(t, r.beta, func() { put(t, r.gamma, configMaps, r.object(configMaps, "orphaned", "none", "five")) })
	r.eventuallyGone(t, configMaps, "orphaned", r.alpha, r.beta)
}
