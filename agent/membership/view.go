// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/roster-mesh/roster/agent/payload"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/mesh"
)

// orders are the lines of ConditionRemovalsConfirmed: the last removal, and the others that wait, newest first.
func (m *Membership) orders() (lines []string, confirmed bool) {
	all := slices.DeleteFunc(m.ledger.all(), func(r removal) bool { return !r.ordered })
	slices.Reverse(all)
	slices.SortStableFunc(all, func(a, b removal) int { return cmp.Compare(b.Time, a.Time) })
	confirmed = true
	for i, r := range all {
		confirmed = confirmed && len(r.waiting) == 0 && !r.unasked
		if len(lines) == maxOrders || i > 0 && len(r.waiting) == 0 {
			continue
		}
		var names []string
		for _, id := range r.waiting {
			name := m.o.Registry.Name(id)
			if state := m.mesh.Member(id).State; state != mesh.Alive {
				name += " (" + state.String() + ")"
			}
			names = append(names, name)
		}
		lines = append(lines, v1alpha1.RemovalLine(r.Name, r.ClusterID, names))
	}
	return lines, confirmed
}

// View is what people are shown of this cluster's membership.
type View struct {
	Removed   string   // that the key of this cluster was removed from the group, by whom and when, and what to do
	Left      string   // that this cluster left a group
	Orders    []string // removals that were ordered here: lines of ConditionRemovalsConfirmed
	Confirmed bool     // all of those, by all members
}

// View says of this cluster whether it is in a group still, and what it has ordered.
func (m *Membership) View() (v View) {
	if r, expelled := m.expelled(); expelled {
		v.Removed = "this cluster " + told(r) + "; " + readmission(m.o.Name())
		return v
	}
	v.Orders, v.Confirmed = m.orders()
	for _, r := range m.ledger.all() {
		if r.ClusterID == m.o.ClusterID && r.Left() {
			v.Left = told(r) + "; agentctl join makes this cluster a member again"
		}
	}
	return v
}

// RemovedKey says of a Cluster object whose key was removed from the group that it was, by whom and when; "" of others.
func (m *Membership) RemovedKey(c *v1alpha1.Cluster) string {
	if c.Spec.Mesh == nil {
		return ""
	}
	r, ok := m.ledger.of(string(c.Spec.ClusterID), payload.AsKey(c.Spec.Mesh.PublicKey))
	if !ok {
		return ""
	}
	return "its key in this object is not trusted: the cluster " + told(r) + "; " + readmission(c.Name)
}

// maxOrders is how many removals a status tells of.
const maxOrders = 8

// told says of a removal who ordered it and when, for people.
func told(r removal) string {
	when := time.Unix(r.Time, 0).UTC().Format(time.RFC3339)
	if r.Left() {
		return "left the group on " + when
	}
	by := "cluster " + r.By
	if r.ByName != "" {
		by = "cluster " + r.ByName + " (" + r.By + ")"
	}
	if r.unverifiedAuthor {
		return "was removed from the group by " + by + " on " + when + ", as another member says, whose word that is"
	}
	return "was removed from the group by " + by + " on " + when
}

// readmission says how a cluster whose key was removed comes back.
func readmission(name string) string {
	return "to admit it again, give it a new key and swap: agentctl join --replace-key --context " + strings.TrimSpace(name) + " --peer-context MEMBER"
}
