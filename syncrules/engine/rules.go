// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
)

// rule is a ResourceSyncRule with what the engine knows about it. Engine.mu guards all but the first group,
// which never changes: an edit makes a new rule.
type rule struct {
	name     string
	spec     *v1alpha1.ResourceSyncRuleSpec
	gen      int64
	compiled *syncrules.Rule // nil when err is set
	err      error
	scopes   []Scope // at a source
	confirm  int     // how many deletions were confirmed
	serial   uint64  // tells this form of the rule from all others
	// selection tells forms of the rule apart by what they select; entries of views are judged by it.
	selection string

	// judged are the owners of which it was counted what is lacking, since the rule has had its present
	// selection. Until then nothing is concluded from what is lacking.
	judged map[string]bool
	// lacking are the copies, by owner, that are lacking without a deletion having been seen: absent of
	// copies; guarded when they are too many.
	lacking        map[string]map[place]struct{}
	guarded        bool
	absent, copies int
	lost           []time.Time // copies deleted lately, with Options.GuardLive

	tally  tally
	sender sender
}

func newRule(r *v1alpha1.ResourceSyncRule, consent syncrules.Consent) *rule {
	out := &rule{
		name: r.Name, spec: r.Spec.DeepCopy(), gen: r.Generation,
		judged: map[string]bool{},
	}
	if n, err := strconv.Atoi(r.Annotations[syncrules.AnnotationConfirmDeletions]); err == nil {
		out.confirm = n
	}
	out.compiled, out.err = syncrules.Compile(r)
	if out.err == nil {
		if out.err = consent.RefuseKind(out.compiled.TargetKind()); out.err != nil {
			out.compiled = nil
		}
	}
	if out.compiled != nil {
		out.selection = out.compiled.Selection()
		for _, s := range out.compiled.Scopes() {
			out.scopes = append(out.scopes, Scope{
				GVK: out.compiled.Kind(), Namespace: s.Namespace,
				LabelSelector: s.LabelSelector, FieldSelector: s.FieldSelector,
			})
		}
	}
	return out
}

// same says that the edit, if there was one, is of no consequence: of the status, say.
func (r *rule) same(o *rule) bool {
	return r.gen == o.gen && r.confirm == o.confirm && equality.Semantic.DeepEqual(r.spec, o.spec)
}

// inherit takes over from the rule as it was before what an edit leaves valid.
func (r *rule) inherit(old *rule) {
	r.tally, r.sender = old.tally, old.sender
	r.sender.wasReady, r.sender.dirty = false, true
	r.guarded, r.absent, r.copies, r.lost = old.guarded, old.absent, old.copies, old.lost // until they are counted again
	if r.selection == old.selection {
		r.judged = old.judged
	}
}

func (r *rule) kind() schema.GroupKind { return r.spec.GVK.Schema().GroupKind() }

// kind is what the rules about one kind share.
type kind struct {
	gvk   schema.GroupVersionKind // of the first usable rule: it decides on the version
	rules []*rule                 // by name
}

// clashes says that the rule wants another version than the one that the kind is written in.
func (k *kind) clashes(r *rule) bool { return r.compiled != nil && r.compiled.TargetKind() != k.gvk }

// indexKinds makes kinds from rules. mu is held.
func (e *Engine) indexKinds() {
	clear(e.kinds)
	for _, name := range slices.Sorted(maps.Keys(e.rules)) {
		r := e.rules[name]
		k := e.kinds[r.kind()]
		if k == nil {
			k = &kind{}
			e.kinds[r.kind()] = k
		}
		if k.gvk.Empty() && r.compiled != nil {
			k.gvk = r.compiled.TargetKind()
		}
		k.rules = append(k.rules, r)
	}
}

// peer is a cluster of the group, or one that has left it.
type peer struct{ Peer }

func (p *peer) same(o Peer) bool {
	return p.Source == o.Source && p.Name == o.Name && p.Why == o.Why && p.Left == o.Left && p.FeaturesKnown == o.FeaturesKnown &&
		slices.EqualFunc(p.Features, o.Features, func(a, b *v1alpha1.ClusterFeature) bool {
			return a.Spec == b.Spec && maps.Equal(a.Labels, b.Labels)
		})
}

// name is what people call the cluster.
func (p *peer) name() string { return cmp.Or(p.Name, p.ClusterID) }

// relation is what a rule says about objects of a peer.
type relation uint8

const (
	asksNot relation = iota // copies are released
	holds                   // copies stay as they are
	asks
)

// relate says what a rule wants of a peer, and why not if it does not ask. watch says that what the peer has
// should be known all the same. mu is held.
func (e *Engine) relate(k *kind, r *rule, p *peer) (rel relation, watch bool, why string) {
	switch {
	case r.err != nil:
		return holds, false, "rule " + r.name + " cannot be used"
	case k.clashes(r):
		return holds, false, fmt.Sprintf("rule %s asks for version %s, another rule for %s", r.name, r.compiled.TargetKind().Version, k.gvk.Version)
	case r.compiled.HasTargets() && e.cluster == nil:
		return holds, false, "the labels of this cluster are not known yet"
	case r.compiled.HasTargets() && !r.compiled.Targets(e.cluster.Labels):
		return asksNot, false, "rule " + r.name + " has targets that leave this cluster out"
	case r.compiled.HasFeatures() && !p.FeaturesKnown:
		return holds, false, "the features of cluster " + p.name() + " are not known yet"
	case r.compiled.HasFeatures() && !r.compiled.FeaturesMatch(p.Features):
		return asksNot, false, "cluster " + p.name() + " lacks the features that rule " + r.name + " asks for"
	case r.compiled.Paused():
		return holds, true, "rule " + r.name + " is paused"
	case r.guarded:
		return holds, true, "rule " + r.name + " was stopped by the deletion guard"
	}
	return asks, true, ""
}

// covers says whether objects of a namespace are in the scope; "" stands for a kind outside namespaces.
func (s Scope) covers(namespace string) bool {
	return s.Namespace == "" || namespace == "" || s.Namespace == namespace
}

func sortScopes(scopes []Scope) {
	slices.SortFunc(scopes, func(a, b Scope) int {
		return strings.Compare(a.GVK.String()+"|"+a.Namespace, b.GVK.String()+"|"+b.Namespace)
	})
}
