// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/consent"
	"github.com/roster-mesh/roster/syncrules/engine/guard"
	"github.com/roster-mesh/roster/syncrules/engine/inforce"
	"github.com/roster-mesh/roster/syncrules/engine/place"
	"github.com/roster-mesh/roster/syncrules/engine/problem"
	"github.com/roster-mesh/roster/syncrules/engine/tally"
)

// rule is a ResourceSyncRule with what the engine knows about it. Engine.mu guards all but the first group,
// which never changes: an edit makes a new rule.
type rule struct {
	name     string
	spec     *v1alpha1.ResourceSyncRuleSpec
	gen      int64
	parsed   *syncrules.Rule // nil when parseErr is set
	born     time.Time       // in this cluster
	parseErr error
	author   string // the cluster that published it
	refused  error  // why this cluster does not let it be in force; nil normally
	serial   uint64 // tells this form of the rule from all others
	// selection tells forms of the rule apart by what they select; entries of views are judged by it.
	selection string
	// learns are the kinds of which it must be known whether they are in namespaces.
	learns []schema.GroupVersionKind
	// moves says that copies may be elsewhere than their sources, reads that they depend on Cluster objects.
	moves, reads bool

	// What follows when it is known which kinds are in namespaces (fit).
	compiled *syncrules.Rule // nil when err is set
	err      error
	unusable string             // what is said of its copies while err is set
	scopes   []Scope            // at a source
	targets  []Scope            // here, where its copies are; none when err is set
	kinds    []schema.GroupKind // of targets, each once
	clash    string             // why it cannot be used beside other rules; "" normally
	excess   inforce.Excess     // why it is not in force beside older ones
	surplus  string             // the same for people; "" normally
	placed   bool               // that was decided of the rule as it is now
	excluded bool               // it leaves this cluster out

	guard  guard.Guard
	tally  tally.Tally
	sender tally.Sender
}

func newRule(r *v1alpha1.ResourceSyncRule, policy consent.Policy, refused error) *rule {
	out := &rule{
		name: r.Name, author: syncrules.Owner(r), refused: refused, born: r.CreationTimestamp.Time, spec: r.Spec.DeepCopy(), gen: r.Generation,
		guard: guard.New(r),
	}
	parsed, err := syncrules.Compile(r)
	if err = cmp.Or(refused, err); err == nil {
		for _, t := range parsed.TargetScopes() {
			err = cmp.Or(err, policy.RefuseKind(t.GVK), policy.RefuseAs(parsed.Kind().GroupKind(), t.GVK.GroupKind()))
		}
	}
	if err != nil {
		out.parseErr = err
	} else {
		out.parsed, out.selection = parsed, parsed.Selection()
		out.moves, out.reads, out.learns = parsed.Moves(), parsed.ReadsClusters(), parsed.KindsToLearn()
	}
	out.fit(nil)
	return out
}

// fit works out what to watch by what is known of kinds. Where it is not known, a kind counts as one in namespaces:
// that is harmless, since namespaces are ignored for objects outside them.
func (r *rule) fit(known place.Kinds) {
	r.compiled, r.err, r.scopes, r.targets, r.kinds = r.parsed, nil, nil, nil, nil
	if r.parseErr != nil {
		r.refuse(r.parseErr)
		return
	}
	if err := r.compiled.CheckTargetNamespaces(known.OutsideNamespaces); err != nil {
		r.refuse(err)
		return
	}
	gvk, scopes := r.compiled.Kind(), r.compiled.Scopes()
	if known.OutsideNamespaces(gvk) {
		if err := r.compiled.CheckClusterScoped(); err != nil {
			r.refuse(err)
			return
		}
		scopes = r.compiled.ClusterScopes()
	}
	for _, s := range scopes {
		r.scopes = append(r.scopes, Scope{GVK: gvk, Namespace: s.Namespace, LabelSelector: s.LabelSelector, FieldSelector: s.FieldSelector})
	}
	for _, t := range r.compiled.TargetScopes() {
		s := Scope{GVK: t.GVK, Namespace: t.Namespace}
		if known.OutsideNamespaces(t.GVK) {
			s.Namespace = ""
		}
		if !slices.Contains(r.targets, s) {
			r.targets = append(r.targets, s)
		}
		if gk := t.GVK.GroupKind(); !slices.Contains(r.kinds, gk) {
			r.kinds = append(r.kinds, gk)
		}
	}
}

// refuse says why the rule cannot be used. Its copies are told in one line, made once for all of them.
func (r *rule) refuse(err error) {
	r.compiled, r.err, r.unusable = nil, err, problem.OneLine(syncrules.UnusableText(r.name, err))
}

// same says that the edit, if there was one, is of no consequence: of the status, say.
func (r *rule) same(o *rule) bool {
	return r.gen == o.gen && r.author == o.author && fmt.Sprint(r.refused) == fmt.Sprint(o.refused) && r.born.Equal(o.born) && r.guard.SameConfirmation(&o.guard) && equality.Semantic.DeepEqual(r.spec, o.spec)
}

// inherit takes over from the rule as it was before what an edit leaves valid.
func (r *rule) inherit(old *rule, edits *inforce.Edits) {
	r.tally, r.sender = old.tally, old.sender
	r.sender.WasReady, r.sender.Dirty = false, true
	r.guard.Inherit(&old.guard, r.selection == old.selection)
	keeps := func(before, now []Scope) bool {
		return slices.Equal(before, now) || old.placed && old.excess == inforce.None && edits.Keep(r.author, before, now)
	}
	if r.author == old.author && keeps(old.scopes, r.scopes) && keeps(old.targets, r.targets) {
		r.excess, r.surplus, r.placed = old.excess, old.surplus, old.placed
	}
}

// kind is the kind of the rule's sources.
func (r *rule) kind() schema.GroupKind { return r.spec.GVK.Schema().GroupKind() }

// makes says that the rule may make the copy at a place.
func (r *rule) makes(k Key) bool {
	return slices.ContainsFunc(r.targets, func(s Scope) bool { return s.GVK.GroupKind() == k.GroupKind && s.Covers(k.Namespace) })
}

// ruleSet is all rules, and what those about one kind share.
type ruleSet struct {
	byName map[string]*rule
	byAge  []*rule // the oldest first
	kinds  map[schema.GroupKind]*kind
	serial uint64    // of the last rule or Cluster object that was set
	rest   time.Time // until when places are not divided anew; zero where there are few rules
	edits  inforce.Edits

	asked *atomic.Int64 // counts how often a rule is asked about an object, in a test; nil otherwise
}

func newRuleSet() ruleSet {
	return ruleSet{byName: map[string]*rule{}, kinds: map[schema.GroupKind]*kind{}}
}

func (s *ruleSet) any(is func(*rule) bool) bool {
	for _, r := range s.byName {
		if is(r) {
			return true
		}
	}
	return false
}

// kind is what the rules about one kind share.
type kind struct {
	// read and written are the versions that sources and copies of the kind are looked at in: those of the
	// oldest usable rule.
	read, written inforce.Version
	// readers have sources of the kind, writers copies; both by name. A rule that does not move is in both.
	readers, writers []*rule
	// observed says that one of writers only looks.
	observed bool
}

// indexKindsLocked makes kinds from rules: once, when all rules that exist were set, and then for each change.
func (e *Engine) indexKindsLocked() {
	if !e.supervisor.ready {
		return
	}
	clear(e.rules.kinds)
	of := func(gk schema.GroupKind) *kind {
		if e.rules.kinds[gk] == nil {
			e.rules.kinds[gk] = &kind{}
		}
		return e.rules.kinds[gk]
	}
	byName := slices.SortedFunc(maps.Values(e.rules.byName), func(a, b *rule) int { return cmp.Compare(a.name, b.name) })
	// A newcomer, which may be any member's, takes no version away from the rules that are at work.
	e.rules.byAge = slices.SortedStableFunc(slices.Values(byName), func(a, b *rule) int { return a.born.Compare(b.born) })
	e.settlePlacesLocked(e.rules.byAge)
	for _, r := range e.rules.byAge {
		clash := r.clash
		if r.settleVersions(of); r.clash != clash {
			e.staleRuleLocked(r)
		}
	}
	for _, r := range byName {
		source := of(r.kind())
		source.readers = append(source.readers, r)
		if r.compiled == nil {
			continue
		}
		for _, gk := range r.kinds {
			of(gk).writers = append(of(gk).writers, r)
			of(gk).observed = of(gk).observed || r.observes() != ""
		}
	}
}

// idle says that the rule is left aside because of others, which come before it, or leaves this cluster out.
func (r *rule) idle() bool { return r.clash != "" || r.surplus != "" || r.excluded }

// settleVersions gives the rule's kinds its versions where they have none, or says which one is in the way.
func (r *rule) settleVersions(of func(schema.GroupKind) *kind) {
	if r.clash = ""; r.compiled == nil || r.surplus != "" {
		return
	}
	wishes := []inforce.Wish{{Has: &of(r.kind()).read, Wants: r.compiled.Kind()}}
	for _, s := range r.targets {
		wishes = append(wishes, inforce.Wish{Has: &of(s.GVK.GroupKind()).written, Wants: s.GVK})
	}
	r.clash = inforce.Clash(r.name, wishes)
}

// staleRuleLocked makes everything that is about the rule be looked at again.
func (e *Engine) staleRuleLocked(r *rule) {
	e.supervisor.rules[r.name] = true
	earlier := e.local.copies.KindsDecidedBy(r.name) // of copies that it made in another form
	for _, gk := range slices.AppendSeq(append([]schema.GroupKind{r.kind()}, r.kinds...), earlier) {
		e.supervisor.kinds[gk], e.supervisor.views[gk] = true, true
	}
}

// peer is a cluster of the group, or one that has left it.
type peer struct {
	Peer
	seen      clusterSnapshot // of its Cluster object
	forgotten bool            // it has left, and nothing is kept of what rules selected of it
}

func (p *peer) same(o Peer) bool {
	return p.Source == o.Source && p.Name == o.Name && p.Why == o.Why && p.Refused == o.Refused && p.Left == o.Left && p.FeaturesKnown == o.FeaturesKnown &&
		slices.EqualFunc(p.Features, o.Features, func(a, b *v1alpha1.ClusterFeature) bool {
			return a.Spec == b.Spec && maps.Equal(a.Labels, b.Labels)
		})
}

// name is what people call the cluster.
func (p *peer) name() string { return cmp.Or(p.Name, p.ClusterID) }

// relateLocked says what a rule wants of a peer, and why not if it does not ask. watch says that what the peer has
// should be known.
func (e *Engine) relateLocked(r *rule, p *peer) (rel syncrules.Relation, watch bool, why string) {
	if r.refused != nil {
		return syncrules.Refused, false, r.unusable
	}
	if r.err != nil {
		return syncrules.Unusable, false, r.unusable
	}
	if r.surplus != "" {
		return syncrules.Refused, false, r.surplus
	}
	if r.clash != "" {
		return syncrules.Unusable, false, "rule " + r.name + ": " + r.clash
	}
	pair := syncrules.ClusterPair{To: e.clusters.local, From: p.name(), Features: p.Features, FeaturesKnown: p.FeaturesKnown}
	switch rel, why = r.compiled.Relate(pair); {
	case rel < syncrules.Stopped:
		return rel, false, why
	case r.moves && !e.fittedLocked(r):
		return syncrules.Unclear, false, "it is not known yet whether the kinds that rule " + r.name + " makes are namespaced"
	case r.reads && (e.clusters.snapshot.cluster == nil || p.seen.cluster == nil):
		return syncrules.Unclear, false, "the Cluster objects that rule " + r.name + " reads are not known yet"
	case rel == syncrules.Asks && e.endedLocked(r, p.ClusterID):
		return syncrules.Stopped, true, "rule " + r.name + " selects more than there is room for"
	case rel == syncrules.Asks && e.namespaces.TooManyLocked(r.name, p.ClusterID) != "":
		return syncrules.Stopped, true, e.namespaces.TooManyLocked(r.name, p.ClusterID)
	case rel == syncrules.Asks && r.guard.StoppedOf(p.ClusterID) && r.observes() == "":
		return syncrules.Stopped, true, "rule " + r.name + " was stopped by the deletion guard"
	}
	return rel, true, why
}
