// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/roster-mesh/roster/agent/payload"
	"github.com/roster-mesh/roster/agent/removals"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/mesh"
)

// removalLines are the lines of ConditionRemovalsConfirmed, newest first: the last removal that was ordered here, and
// older ones that still wait for confirmations.
func (m *Membership) removalLines() (lines []string, confirmed bool) {
	all := m.ledger.Which(func(r *removal) bool { return r.Ordered })
	slices.Reverse(all)
	slices.SortStableFunc(all, func(a, b removal) int { return cmp.Compare(b.Time, a.Time) })
	confirmed = true
	for i, r := range all {
		confirmed = confirmed && len(r.Waiting) == 0 && !r.AskAll
		if len(lines) == maxListed || i > 0 && len(r.Waiting) == 0 {
			continue
		}
		var names []string
		for _, id := range r.Waiting {
			name := m.o.Registry.Name(id)
			if slices.Contains(r.HeldBy, id) {
				name += " (held there: agentctl removals confirm)"
			}
			if state := m.mesh.Member(id).State; state != mesh.Alive {
				name += " (" + state.String() + ")"
			}
			names = append(names, name)
		}
		lines = append(lines, v1alpha1.RemovalLine(r.Name, r.ClusterID, names))
	}
	return lines, confirmed
}

// View is the status of this cluster's membership, for users.
type View struct {
	Removed         string   // by whom and when this cluster was removed, and what to do; "" if it was not
	Left            string   // when this cluster left its group; "" if it did not
	OrderedRemovals []string // removals that were ordered here: lines of ConditionRemovalsConfirmed
	Confirmed       bool     // all members have confirmed all of them
	// NotAdmitted is who waits to be admitted here, and what to do; "" for nobody. Its reason is one of Admitted….
	NotAdmitted, NotAdmittedReason string
	// Unconfirmed are the removals by other members that no person here has confirmed.
	Unconfirmed removals.View
}

// View returns the status of this cluster's membership.
func (m *Membership) View() (v View) {
	if r, removed := m.removedFromGroup(); removed {
		v.Removed = "this cluster " + removalText(r) + "; " + readmission(m.o.Name())
		return v
	}
	v.OrderedRemovals, v.Confirmed = m.removalLines()
	v.Unconfirmed = m.guard.View(m.o.Registry.Name)
	v.NotAdmittedReason, v.NotAdmitted = m.notAdmitted()
	for _, r := range m.ledger.Which(func(r *removal) bool { return r.ClusterID == m.o.ClusterID && r.Left() }) {
		v.Left = removalText(r) + "; agentctl join makes this cluster a member again"
	}
	return v
}

// RemovedKey says that the key in a Cluster object was removed from the group, by whom and when; "" if it was not.
func (m *Membership) RemovedKey(c *v1alpha1.Cluster) string {
	if c.Spec.Mesh == nil {
		return ""
	}
	r, ok := m.ledger.Lookup(string(c.Spec.ClusterID), payload.AsKey(c.Spec.Mesh.PublicKey))
	if !ok {
		return ""
	}
	return "its key in this object is not trusted: the cluster " + removalText(r) + "; " + readmission(c.Name)
}

// maxListed is how many removals or clusters a message lists.
const maxListed = 8

// removalText says who ordered a removal, and when.
func removalText(r removal) string {
	when := time.Unix(r.Time, 0).UTC().Format(time.RFC3339)
	if r.Left() {
		return "left the group on " + when
	}
	by := "cluster " + r.By
	if r.ByName != "" {
		by = "cluster " + r.ByName + " (" + r.By + ")"
	}
	if r.UnverifiedAuthor {
		return "was removed from the group by " + by + " on " + when + ", as reported by another member: this cluster cannot verify it"
	}
	return "was removed from the group by " + by + " on " + when
}

// readmission says how a cluster whose key was removed can join again.
func readmission(name string) string {
	return "to admit it again, give it a new key and swap: agentctl join --replace-key --context " + strings.TrimSpace(name) + " --peer-context MEMBER"
}
