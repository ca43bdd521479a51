// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/engine/place"
)

// Reason is the reason of the condition Ready of a rule that is stopped.
const Reason = "DeletionGuard"

// window is for how long a copy that was deleted counts, where deletions that are seen live count: live events come one
// by one, and are acted on at once.
const window = time.Minute

// Guard is what is known of a rule's copies that lack their sources. The zero value has not been told of any rule.
type Guard struct {
	judged map[string]bool // owners
	// lacking are the copies that lack their source without a deletion having been seen; those of them that somebody set
	// aside are kept instead.
	lacking, kept ownedKeys
	missing       missing
	all           bool     // all copies of the rule are stopped
	of            []string // those of these owners are, in order
	suspect       bool
	confirm       confirmation
	lost          []loss // copies that were lacking, where live deletions count
}

// missing is how many of a rule's copies are lacking, those that were lost within the window among them, and how many
// beside them are kept; and how many of the first owner in Guard.of.
type missing struct {
	absent, copies, kept       int
	ofAbsent, ofCopies, ofKept int
}

// loss is that a copy went which counted as lacking.
type loss struct {
	at    time.Time
	owner string
}

// New is the guard of a rule that was not known before. That the guard had stopped it when its status was written, by an
// agent that ran before, makes it suspect.
func New(r *v1alpha1.ResourceSyncRule) Guard {
	ready := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionReady)
	return Guard{judged: map[string]bool{}, suspect: ready != nil && ready.Reason == Reason, confirm: confirmationOf(r)}
}

// Inherit takes over from the guard of the rule as it was before an edit what the edit leaves valid.
func (g *Guard) Inherit(old *Guard, sameSelection bool) {
	g.all, g.of, g.missing, g.lost = old.all, old.of, old.missing, old.lost // until they are counted again
	g.confirm = g.confirm.after(old.confirm)
	if sameSelection {
		g.judged, g.lacking, g.kept, g.suspect = old.judged, old.lacking, old.kept, old.suspect
	} else {
		g.suspect = old.suspect || old.Stopped()
	}
}

// SameConfirmation says that two forms of a rule confirm the same.
func (g *Guard) SameConfirmation(o *Guard) bool { return g.confirm.count == o.confirm.count }

// Judged says that the owner was judged.
func (g *Guard) Judged(owner string) bool { return g.judged[owner] }

// Judge notes that everything the owner has is known, and returns false when that was so before.
func (g *Guard) Judge(owner string) (first bool) {
	first = !g.judged[owner]
	g.judged[owner] = true
	return first
}

// Doubt notes that it is not known any more.
func (g *Guard) Doubt(owner string) { delete(g.judged, owner) }

// Recount forgets which copies of an owner lack their source, for them to be told again.
func (g *Guard) Recount(owner string) {
	delete(g.lacking, owner)
	delete(g.kept, owner)
}

// Lack notes that the copy at k lacks its source; setAside that somebody keeps it by an annotation.
func (g *Guard) Lack(owner string, k place.Key, setAside bool) {
	if setAside {
		g.lacking.without(owner, k)
		g.kept = g.kept.with(owner, k)
	} else {
		g.kept.without(owner, k)
		g.lacking = g.lacking.with(owner, k)
	}
}

// Clear notes that the source of the copy at k is there, or that the copy is not. It returns true when that used up a
// confirmation: then the rule is to be reported.
func (g *Guard) Clear(owner string, k place.Key) (usedUp bool) {
	g.kept.without(owner, k)
	g.lacking.without(owner, k)
	return g.endConfirmation()
}

// Lacks says that the copy at k is counted: as lacking, or as kept.
func (g *Guard) Lacks(owner string, k place.Key) bool {
	_, lacking := g.lacking[owner][k]
	_, kept := g.kept[owner][k]
	return lacking || kept
}

// Each calls f with every copy that is counted.
func (g *Guard) Each(f func(owner string, k place.Key, kept bool)) {
	for _, counted := range []ownedKeys{g.lacking, g.kept} {
		for owner, keys := range counted {
			for k := range keys {
				_, kept := g.kept[owner][k]
				f(owner, k, kept)
			}
		}
	}
}

// Any says that some copy is counted.
func (g *Guard) Any() bool { return len(g.lacking)+len(g.kept) > 0 }

// Gone notes that the copy at k is gone, before Clear. One that was lacking goes on counting, for a while, as lost where
// live deletions count: so every copy counts once, from when its source was gone.
func (g *Guard) Gone(owner string, k place.Key, live bool, now time.Time) {
	_, lacking := g.lacking[owner][k]
	switch {
	case lacking && live:
		g.lost = append(g.lost, loss{now, owner})
	case lacking && g.confirm.begun:
		g.confirm.spent++
	}
}

// Stopped says that something of the rule is stopped, and StoppedOf that what it has of one cluster is.
func (g *Guard) Stopped() bool { return g.all || len(g.of) > 0 }

// StoppedOf is explained at Stopped.
func (g *Guard) StoppedOf(owner string) bool { return g.all || slices.Contains(g.of, owner) }

// StoppedAll says that all of the rule is stopped.
func (g *Guard) StoppedAll() bool { return g.all }

// StoppedOwners are the owners whose copies are stopped, also where those of others are not, in order; not to be changed.
func (g *Guard) StoppedOwners() []string { return g.of }

// Suspect says that the rule was edited while it was stopped, or may have been, and that nothing has cleared it since.
func (g *Guard) Suspect() bool { return g.suspect }

// Quiet says that nothing is stopped or lacking. Where that is known of all copies, Trust ends the suspicion.
func (g *Guard) Quiet() bool { return !g.Stopped() && len(g.lacking) == 0 }

// Trust is explained at Quiet.
func (g *Guard) Trust() { g.suspect = false }

// Confirmed is the count of deletions that the status tells as confirmed.
func (g *Guard) Confirmed() int { return g.confirm.told() }

// Counts is what Decide must know of the copies that the rule decides about.
type Counts struct {
	Of       func(owner string) int  // copies of an owner
	Asks     func(owner string) bool // the rule asks for what a cluster has, or may do so
	All      int                     // copies of all owners
	Deletion bool                    // the rule's policy is to delete copies whose source is gone
	Edit     bool                    // it is to delete copies that an edit lets go of
}

// Change is what a decision changed.
type Change struct {
	Rule   bool     // all copies were stopped, or let go on
	Owners []string // those of these were
	Report bool     // what the status says: of what is stopped, or of a confirmation that was begun or used up
	// Absent of Copies lack their source.
	Absent, Copies int
}

// Decide counts what is lacking without proof, and stops the rule or lets it go on.
func (g *Guard) Decide(c Counts, now time.Time) (out Change) {
	m, all, of := g.count(c, now)
	if m != g.missing {
		g.missing = m
		out.Report = g.Stopped() // its condition says how many
	}
	begun := g.confirm.begun
	deletes := c.Deletion || g.suspect && c.Edit
	if !deletes || !all && of == nil || g.confirm.allows(m.absent) {
		all, of = false, nil
	}
	before := g.of
	out.Rule, out.Absent, out.Copies = g.all != all, m.absent, m.copies
	g.all, g.of = all, of
	out.Report = out.Report || g.confirm.begun != begun
	out.Report = g.endConfirmation() || out.Report
	if out.Rule || !slices.Equal(before, of) {
		for _, owner := range slices.Concat(before, of) {
			if slices.Contains(before, owner) != slices.Contains(of, owner) {
				out.Owners = append(out.Owners, owner)
			}
		}
	}
	return out
}

// count counts what is lacking of the rule, and says whether that is too much of all; and finds the owners of which too
// much is by itself: a fault is one cluster's, and in a large group none has most of the copies.
func (g *Guard) count(c Counts, now time.Time) (m missing, all bool, of []string) {
	m.copies = c.All
	if len(g.lacking) == 0 {
		return m, false, nil
	}
	g.forgetLosses(now)
	m.absent, m.copies = len(g.lost), m.copies+len(g.lost)
	for owner, at := range g.kept {
		if c.Asks(owner) {
			m.kept += len(at)
		}
	}
	for _, owner := range slices.Sorted(maps.Keys(g.lacking)) {
		absent, copies := len(g.lacking[owner]), c.Of(owner)
		m.absent += absent
		for _, l := range g.lost {
			if l.owner == owner {
				absent, copies = absent+1, copies+1
			}
		}
		kept := len(g.kept[owner])
		if !syncrules.Guarded(absent+kept, copies+kept) {
			continue
		}
		if of = append(of, owner); len(of) == 1 {
			m.ofAbsent, m.ofCopies, m.ofKept = absent, copies, kept
		}
	}
	return m, syncrules.Guarded(m.absent+m.kept, m.copies+m.kept), of
}

// forgetLosses forgets those of before the window. What is stopped goes on counting.
func (g *Guard) forgetLosses(now time.Time) {
	if g.all || len(g.lost) == 0 || now.Sub(g.lost[0].at) <= window {
		return
	}
	g.lost = slices.DeleteFunc(g.lost, func(l loss) bool {
		return now.Sub(l.at) > window && !slices.Contains(g.of, l.owner)
	})
}

// endConfirmation uses a confirmation up when everything that it allowed is done: what goes missing later is another
// fault, or another decision. The status remembers it.
func (g *Guard) endConfirmation() bool {
	if !g.confirm.begun || len(g.lacking) > 0 {
		return false
	}
	g.confirm = confirmation{count: g.confirm.count, used: g.confirm.count}
	g.lost = nil
	return true
}

// Text says to people what is stopped, why, and how to confirm it. It is for a rule that is Stopped.
func (g *Guard) Text(rule string, clusterName func(id string) string) string {
	m, which, stays := g.missing, "copies", "nothing is changed"
	absent, copies, kept := m.absent, m.copies, m.kept
	if !g.all {
		which, stays = "copies from cluster "+clusterName(g.of[0]), "those stay as they are"
		absent, copies, kept = m.ofAbsent, m.ofCopies, m.ofKept
		if n := len(g.of) - 1; n > 0 {
			which += fmt.Sprintf(", and more from %d others,", n)
		}
	}
	besides := ""
	if kept > 0 {
		besides = fmt.Sprintf(", as are those of %d that were set aside", kept)
	}
	return fmt.Sprintf(
		"%d of %d %s would be deleted because their sources are missing from a list%s, which may be a fault there; %s until they are back, or until you confirm with: agentctl guard confirm %s --deletions=%d (it counts once)",
		absent, copies, which, besides, stays, rule, g.confirm.next(m.absent))
}
