// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package removals

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/roster-mesh/roster/kube/api/v1alpha1/unconfirmed"
	"github.com/roster-mesh/roster/mesh/trust"
	"github.com/roster-mesh/roster/replica"
)

// maxMessage is how many bytes a message lists of removals: a condition may have 32 KiB.
const maxMessage = 24 << 10

// maxGone is how many authors a message names that are no members any more.
const maxGone = 8

// View is what a person is to know of removals that other members ordered.
type View struct {
	Held    bool   // some wait for a person
	Message string // "" for none that nobody has confirmed
}

// stateLocked is what has become of a removal, for people; "" if there is nothing to say: it is confirmed, or of a cluster that is not
// a member here.
func (g *Guard) stateLocked(r *replica.Removal) string {
	_, member := g.o.Trust.Key(r.ClusterID)
	switch {
	case r.Standing.Charge != nil:
		return unconfirmed.InEffect
	case !r.Standing.Held || !member || r.ClusterID == g.o.ClusterID && !r.PublicKey.Equal(g.o.Key):
		return ""
	case g.disputedLocked(r):
		return unconfirmed.Disputed
	case g.o.Trust.IsPinned(r.By, r.ByKey) && g.o.Trust.IsEdge(r.By):
		return unconfirmed.ByEdge
	}
	return unconfirmed.Held
}

// disputedLocked says whether the author of a removal was itself removed, or was never a member here. A removal that nobody has confirmed
// is not enough: a thief could strike first at whoever would remove it.
func (g *Guard) disputedLocked(r *replica.Removal) bool {
	if by := g.of[pair{r.By, string(r.ByKey)}]; by != nil && !by.Standing.Held && by.Standing.Charge == nil {
		return true
	}
	_, had := g.o.Trust.Had(r.By, r.ByKey)
	return !had
}

// Waits says whether a removal waits for a person here.
func (g *Guard) Waits(r replica.Removal) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	known := g.of[about(r)]
	if known == nil {
		return false
	}
	state := g.stateLocked(known)
	return state == unconfirmed.Held || state == unconfirmed.ByEdge
}

// View lists the removals that nobody has confirmed, those that are held first; name is what a cluster is called here.
func (g *Guard) View(name func(clusterID string) string) (v View) {
	g.mu.Lock()
	defer g.mu.Unlock()
	states := map[string][]replica.Removal{}
	for _, r := range g.of {
		if state := g.stateLocked(r); state != "" {
			states[state] = append(states[state], *r)
		}
	}
	var parts, lines []string
	authors, gone, size, left := map[string]bool{}, map[string]bool{}, 0, 0
	for _, r := range states[unconfirmed.Held] {
		if authors[r.By] = true; !g.o.Trust.IsPinned(r.By, r.ByKey) {
			gone[g.authorLocked(&r, name)] = true
		}
	}
	if n := len(states[unconfirmed.Held]); n > 0 {
		v.Held = true
		parts = append(parts, fmt.Sprintf("removals by other members are held, and end nothing (removals: %d; who ordered them: %d): look at them with agentctl removals list, and confirm those that you know of, or remove who ordered them", n, len(authors)))
	}
	for _, by := range slices.Sorted(maps.Keys(gone))[:min(len(gone), maxGone)] {
		parts = append(parts, by+" is no member any more, and what it ordered waits for good: if it was meant, agentctl removals confirm --by "+by)
	}
	if n := len(states[unconfirmed.Disputed]); n > 0 {
		parts = append(parts, fmt.Sprintf("%d more are held for good, whose authors are no members: nobody needs to do anything; if one was meant, agentctl removals confirm NAME/KEY", n))
	}
	for _, state := range []string{unconfirmed.Held, unconfirmed.ByEdge, unconfirmed.InEffect, unconfirmed.Disputed} {
		slices.SortFunc(states[state], compare)
		for _, r := range states[state] {
			line := unconfirmed.Removal{
				Name: nameOf(name, r.ClusterID, r.Name), ClusterID: r.ClusterID, Fingerprint: trust.Fingerprint(r.PublicKey), By: g.authorLocked(&r, name),
				ByClusterID: r.By, ByKey: trust.Fingerprint(r.ByKey), State: state,
			}.Line()
			if size += len(line); size > maxMessage {
				left++
				continue
			}
			lines = append(lines, line)
		}
	}
	if left > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", left))
	}
	if len(lines) > 0 {
		parts = append(parts, strings.Join(lines, "; "))
	}
	v.Message = strings.Join(parts, ". ")
	return v
}

// authorLocked is what the author of a removal is called. Anybody signs with a key of his own what a member is said to have ordered: so
// it has a name only if its key was pinned here, and that it gives itself only if the key still is.
func (g *Guard) authorLocked(r *replica.Removal, name func(clusterID string) string) string {
	said := ""
	if g.o.Trust.IsPinned(r.By, r.ByKey) {
		said = r.ByName
	} else if _, had := g.o.Trust.Had(r.By, r.ByKey); !had {
		return r.By
	}
	return nameOf(name, r.By, said)
}

// nameOf is what a cluster is called: here, or else by who signed the removal.
func nameOf(name func(clusterID string) string, clusterID, said string) string {
	if known := name(clusterID); known != clusterID || said == "" {
		return known
	}
	return said
}

// Collector counts the removals by other members that nobody has confirmed.
func (g *Guard) Collector() prometheus.Collector {
	desc := prometheus.NewDesc("roster_unconfirmed_removals", "Removals by other members that nobody here has confirmed. Those that are held end nothing.", []string{"state"}, nil)
	return collector{g, desc}
}

type collector struct {
	guard *Guard
	desc  *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (c collector) Describe(out chan<- *prometheus.Desc) { out <- c.desc }

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) {
	counts := map[string]int{}
	c.guard.mu.Lock()
	for _, r := range c.guard.of {
		counts[c.guard.stateLocked(r)]++
	}
	c.guard.mu.Unlock()
	for label, state := range map[string]string{"held": unconfirmed.Held, "by_edge": unconfirmed.ByEdge, "disputed": unconfirmed.Disputed, "in_effect": unconfirmed.InEffect} {
		out <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, float64(counts[state]), label)
	}
}
