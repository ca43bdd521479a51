// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package tally

import (
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/syncrules/drift"
	"github.com/roster-mesh/roster/syncrules/engine/place"
)

// MaxErrors is how many texts of results a Tally keeps.
const MaxErrors = 16

// State is how a copy stands.
type State uint8

const (
	Idle   State = iota
	Synced       // as it should be
	Failed
	Held    // left as it is on purpose
	Tried   // will be looked at again soon
	Drifted // not as a rule would have it that only looks; the reason is a drift.Kind
)

// Result is what is known of a copy after it was worked on. It is not changed later.
type Result struct {
	Offers   []Offer
	Owner    string
	State    State
	Conflict bool
	Reason   string   // of a problem or conflict
	Text     string   // the same for people
	Rules    []string // that are told
}

// Offer is that the rules select an object at an origin.
type Offer struct {
	Origin  string
	Rules   []string
	Surplus bool // another object of the origin has the place
}

// Same says that there is nothing new to tell: an object that fails again, say.
func (r *Result) Same(o *Result) bool {
	return r.Owner == o.Owner && r.State == o.State && r.Conflict == o.Conflict && r.Reason == o.Reason && r.Text == o.Text &&
		slices.Equal(r.Rules, o.Rules) && slices.EqualFunc(r.Offers, o.Offers, func(a, b Offer) bool {
		return a.Origin == b.Origin && a.Surplus == b.Surplus && slices.Equal(a.Rules, b.Rules)
	})
}

// Tally is what a rule's results add up to.
type Tally struct {
	Matched, Synced, Failed, Held, Tried, Conflicts int32
	Drifted                                         map[drift.Kind]int32
	Reasons                                         map[string]int32 // but those of Drifted
	Sources                                         map[string]*SourceTally
	Texts                                           []Text // newest first

	Slow      string // a copy that changes too often, until SlowUntil
	SlowUntil time.Time
}

// SourceTally is the part of one cluster's objects. Lag is how long its last change took to reach the copy.
type SourceTally struct {
	Matched, Synced, Failed int32
	Lag                     time.Duration
}

// Text is what is said to people about one copy.
type Text struct {
	Key          place.Key
	Reason, Text string
}

// Source is the part of a cluster, which is made if there is none.
func (t *Tally) Source(id string) *SourceTally {
	if t.Sources == nil {
		t.Sources = map[string]*SourceTally{}
	}
	s := t.Sources[id]
	if s == nil {
		s = &SourceTally{}
		t.Sources[id] = s
	}
	return s
}

// Add adds a result n times for a rule; -1 takes it away.
func (t *Tally) Add(k place.Key, rule string, res *Result, n int32) {
	for _, o := range res.Offers {
		if !slices.Contains(o.Rules, rule) {
			continue
		}
		t.Matched += n
		s := t.Source(o.Origin)
		s.Matched += n
		switch {
		case o.Surplus:
		case res.State == Synced && (o.Origin == res.Owner || res.Owner == ""):
			s.Synced += n
		case res.State == Failed:
			s.Failed += n
		}
	}
	switch res.State {
	case Synced:
		t.Synced += n
	case Failed:
		t.Failed += n
	case Held:
		t.Held += n
	case Tried:
		t.Tried += n
	case Idle, Drifted:
	}
	if res.Conflict {
		t.Conflicts += n
	}
	switch {
	case res.State == Drifted:
		t.Drifted = count(t.Drifted, drift.Kind(res.Reason), n)
	case res.Reason != "":
		t.Reasons = count(t.Reasons, res.Reason, n)
	}
	if res.Text == "" {
		return
	}
	t.Texts = slices.DeleteFunc(t.Texts, func(x Text) bool { return x.Key == k })
	if n > 0 {
		t.Texts = slices.Insert(t.Texts, 0, Text{k, res.Reason, res.Text})
		t.Texts = t.Texts[:min(len(t.Texts), MaxErrors)]
	}
}

// count adds to a number of the map, which has no zeros.
func count[K comparable](m map[K]int32, key K, n int32) map[K]int32 {
	if m == nil {
		m = map[K]int32{}
	}
	if m[key] += n; m[key] == 0 {
		delete(m, key)
	}
	return m
}

// Drift is how many objects are not as a rule would have them.
func (t *Tally) Drift() (n int32) {
	for _, of := range t.Drifted {
		n += of
	}
	return n
}

// DriftCondition says of a rule that only looks whether all is as it would have it; settled says that all was looked at.
func (t *Tally) DriftCondition(settled bool) metav1.Condition {
	example := ""
	most, _ := drift.Sum(t.Drifted)
	if i := slices.IndexFunc(t.Texts, func(x Text) bool { return x.Reason == string(most) }); i >= 0 {
		example = t.Texts[i].Text
	}
	return drift.Condition(t.Drifted, example, settled)
}

// Tell keeps the text of a result behind the others if there is room, or if none of its reason is among them.
func (t *Tally) Tell(k place.Key, res *Result) (news bool) {
	if res.Text == "" || slices.ContainsFunc(t.Texts, func(x Text) bool { return x.Key == k }) {
		return false
	}
	if len(t.Texts) == MaxErrors {
		if slices.ContainsFunc(t.Texts, func(x Text) bool { return x.Reason == res.Reason }) {
			return false
		}
		seen := map[string]bool{}
		again := slices.IndexFunc(t.Texts, func(x Text) bool {
			was := seen[x.Reason]
			seen[x.Reason] = true
			return was
		})
		if again < 0 {
			return false
		}
		t.Texts = slices.Delete(t.Texts, again, again+1)
	}
	t.Texts = append(t.Texts, Text{k, res.Reason, res.Text})
	return true
}

// Worst is the reason that most copies share which are not as they should be, "" where all are, and what is said of these.
func (t *Tally) Worst() (reason, message string) {
	n := int32(0)
	for _, name := range slices.Sorted(maps.Keys(t.Reasons)) {
		if t.Reasons[name] > n {
			reason, n = name, t.Reasons[name]
		}
	}
	message = fmt.Sprintf("%d of %d", n, t.Matched)
	if i := slices.IndexFunc(t.Texts, func(x Text) bool { return x.Reason == reason }); i >= 0 {
		message += ": " + t.Texts[i].Text
	}
	return reason, message
}
