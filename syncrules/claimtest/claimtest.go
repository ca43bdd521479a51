// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package claimtest has situations of one copy, and what becomes of it. The tests of the engine and of agentctl both
// bring about each of them, in their own way, and compare what they say about it with what is written here: an explanation
// that differs from what an agent does is worse than none.
package claimtest

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
)

// The copy is in the cluster alpha, and owned by beta.
const (
	Alpha, AlphaID = "alpha", "id-alpha"
	Beta, BetaID   = "beta", "id-beta"
)

// Case is one situation.
type Case struct {
	Name string
	// Rules are those of alpha as they are now.
	Rules []*v1alpha1.ResourceSyncRule
	// Copy is what is in alpha.
	Copy *unstructured.Unstructured
	// Source is what beta has where the copy comes from, nil for nothing; Unknown says that this is not known.
	Source  *unstructured.Unstructured
	Unknown bool
	// Standing, Policy and Reason are those of beta's claim. Policy is "" where the claim has none.
	Standing syncrules.Standing
	Policy   v1alpha1.DeletionPolicy
	Reason   string
	// Action is what is done about the copy.
	Action syncrules.Action
}

// Labels are those of alpha's Cluster object.
func Labels() map[string]string { return map[string]string{"tier": "edge"} }

type ruleOption func(*v1alpha1.ResourceSyncRule)

// rule is one that selects ConfigMaps of the namespace shop with the label app=web.
func rule(name string, options ...ruleOption) *v1alpha1.ResourceSyncRule {
	r := &v1alpha1.ResourceSyncRule{ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 1}}
	r.Spec.GVK = v1alpha1.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	r.Spec.Rules = []v1alpha1.SyncRule{{Matches: []v1alpha1.SyncRuleMatch{{
		Namespaces: []string{"shop"}, Labels: []metav1.LabelSelector{{MatchLabels: map[string]string{"app": "web"}}},
	}}}}
	for _, o := range options {
		o(r)
	}
	return r
}

func paused(r *v1alpha1.ResourceSyncRule)       { r.Spec.Paused = true }
func observing(r *v1alpha1.ResourceSyncRule)    { r.Spec.Mode = v1alpha1.ModeObserve }
func orphans(r *v1alpha1.ResourceSyncRule)      { r.Spec.DeletionPolicy = v1alpha1.DeletionOrphan }
func deletesLetGo(r *v1alpha1.ResourceSyncRule) { r.Spec.RuleDeletionPolicy = v1alpha1.DeletionDelete }

func edited(r *v1alpha1.ResourceSyncRule) {
	r.Generation, r.Spec.Rules[0].Matches[0].Labels[0].MatchLabels = 2, map[string]string{"app": "other"}
}

func unusable(r *v1alpha1.ResourceSyncRule) {
	r.Generation, r.Spec.DeletionPolicy = 2, "Forget"
}

func elsewhere(r *v1alpha1.ResourceSyncRule) {
	r.Spec.Targets = &v1alpha1.ClusterSelector{LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"tier": "core"}}}
}

func needsFeature(r *v1alpha1.ResourceSyncRule) {
	r.Spec.ClusterFeatureMatches = []v1alpha1.ClusterFeatureMatch{{FeatureName: "f"}}
}

// moves puts the copy under the name that the label "as" of the source says.
func moves(r *v1alpha1.ResourceSyncRule) {
	r.Spec.Rules[0].Mutations.Overrides = []v1alpha1.Override{{
		Type: v1alpha1.OverrideReplace, Path: "/metadata/name", Value: "{{ .Object.metadata.labels.as }}",
	}}
}

func object(labels map[string]string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": "shop", "name": "web"},
		"data": map[string]any{"v": "1"},
	}}
	obj.SetLabels(labels)
	return obj
}

// web is the source as the rules select it, with more labels.
func web(more ...string) *unstructured.Unstructured {
	labels := map[string]string{"app": "web"}
	for i := 0; i < len(more); i += 2 {
		labels[more[i]] = more[i+1]
	}
	return object(labels)
}

func withdrawn() *unstructured.Unstructured {
	obj := web()
	obj.SetAnnotations(map[string]string{v1alpha1.AnnotationSyncDisabled: "true"})
	return obj
}

func terminating() *unstructured.Unstructured {
	obj := web()
	at := metav1.Now()
	obj.SetDeletionTimestamp(&at)
	obj.SetFinalizers([]string{"example.com/kept"})
	return obj
}

// copyOf is the copy that rules made of a source of beta.
func copyOf(source *unstructured.Unstructured, rules ...*v1alpha1.ResourceSyncRule) *unstructured.Unstructured {
	var compiled []*syncrules.Rule
	for _, r := range rules {
		c, err := syncrules.Compile(r)
		if err != nil {
			panic(err)
		}
		compiled = append(compiled, c)
	}
	out, err := syncrules.Render(compiled, source, syncrules.Input{Owner: BetaID})
	if err != nil {
		panic(err)
	}
	return out
}

type rules = []*v1alpha1.ResourceSyncRule

// Cases are all situations.
func Cases() []Case {
	const lost = "its source is gone in cluster beta, or rule r does not select it any more"
	const look = "rule r only observes (spec.mode)"
	const edit = "rule r was edited and does not select its source any more"
	out := []Case{
		{Name: "offered", Rules: rules{rule("r")}, Source: web(), Standing: syncrules.Offered, Action: syncrules.None},
		{
			Name: "withdrawn", Rules: rules{rule("r")}, Source: withdrawn(), Standing: syncrules.Held,
			Reason: "it is withdrawn by the annotation " + v1alpha1.AnnotationSyncDisabled, Action: syncrules.Freeze,
		},
		{Name: "terminating", Rules: rules{rule("r")}, Source: terminating(), Standing: syncrules.Held, Reason: "it is being deleted", Action: syncrules.Freeze},
		{Name: "gone", Rules: rules{rule("r")}, Standing: syncrules.Gone, Policy: v1alpha1.DeletionDelete, Reason: lost, Action: syncrules.Delete},
		{Name: "gone, of a rule that orphans", Rules: rules{rule("r", orphans)}, Standing: syncrules.Gone, Policy: v1alpha1.DeletionOrphan, Reason: lost, Action: syncrules.MarkOrphan},
		{Name: "selected no more", Rules: rules{rule("r")}, Source: object(map[string]string{"app": "x"}), Standing: syncrules.Gone, Policy: v1alpha1.DeletionDelete, Reason: lost, Action: syncrules.Delete},
		{Name: "not known", Rules: rules{rule("r")}, Source: web(), Unknown: true, Standing: syncrules.Unknown, Reason: "what cluster beta has is not known now", Action: syncrules.Freeze},
		{Name: "edited", Rules: rules{rule("r", edited)}, Source: web(), Standing: syncrules.Released, Policy: v1alpha1.DeletionOrphan, Reason: edit, Action: syncrules.MarkOrphan},
		{Name: "edited, and deletes what it lets go", Rules: rules{rule("r", edited, deletesLetGo)}, Source: web(), Standing: syncrules.Released, Policy: v1alpha1.DeletionDelete, Reason: edit, Action: syncrules.Delete},
		{Name: "rule gone", Source: web(), Standing: syncrules.Released, Policy: v1alpha1.DeletionOrphan, Reason: "rule r is gone", Action: syncrules.MarkOrphan},
		{Name: "rule gone, and the source not known", Source: web(), Unknown: true, Standing: syncrules.Released, Policy: v1alpha1.DeletionOrphan, Reason: "rule r is gone", Action: syncrules.MarkOrphan},
		{Name: "paused", Rules: rules{rule("r", paused)}, Source: web(), Standing: syncrules.Held, Reason: "rule r is paused", Action: syncrules.Freeze},
		{Name: "paused, and gone", Rules: rules{rule("r", paused)}, Standing: syncrules.Held, Reason: "rule r is paused", Action: syncrules.Freeze},
		{Name: "observing", Rules: rules{rule("r", observing)}, Source: web(), Standing: syncrules.Held, Reason: look, Action: syncrules.Freeze},
		{Name: "observing, and gone", Rules: rules{rule("r", observing)}, Standing: syncrules.Held, Reason: look, Action: syncrules.Freeze},
		{Name: "observing, and edited", Rules: rules{rule("r", observing, edited, deletesLetGo)}, Source: web(), Standing: syncrules.Held, Reason: look, Action: syncrules.Freeze},
		{Name: "observing, for other clusters", Rules: rules{rule("r", observing, elsewhere, deletesLetGo)}, Source: web(), Standing: syncrules.Held, Reason: look, Action: syncrules.Freeze},
		{
			Name: "for other clusters", Rules: rules{rule("r", elsewhere)}, Source: web(), Standing: syncrules.Released, Policy: v1alpha1.DeletionOrphan,
			Reason: "rule r: spec.targets: tier=core: its Cluster object has tier=edge", Action: syncrules.MarkOrphan,
		},
		{
			Name: "of clusters with a feature", Rules: rules{rule("r", needsFeature)}, Source: web(), Standing: syncrules.Released, Policy: v1alpha1.DeletionOrphan,
			Reason: "rule r: spec.clusterFeatureMatch[0]: featureName f: the cluster has no such ClusterFeature", Action: syncrules.MarkOrphan,
		},
		{
			Name: "unusable", Rules: rules{rule("r", unusable)}, Source: web(), Standing: syncrules.Held, Action: syncrules.Freeze,
			Reason: syncrules.UnusableText("r", compileError(rule("r", unusable))),
		},
	}
	out = append(out, ofTwoAndMoved()...)
	for i := range out {
		if out[i].Copy == nil {
			out[i].Copy = copyOf(web(), rule("r"))
		}
	}
	return out
}

// ofTwoAndMoved are those with two rules, and with a rule that puts its copies elsewhere.
func ofTwoAndMoved() []Case {
	named := web("as", "named")
	return []Case{
		{Name: "two rules, one gone", Rules: rules{rule("r")}, Copy: copyOf(web(), rule("r"), rule("s")), Source: web(), Standing: syncrules.Offered, Action: syncrules.Update},
		{Name: "two rules, one paused", Rules: rules{rule("r"), rule("s", paused)}, Copy: copyOf(web(), rule("r"), rule("s")), Source: web(), Standing: syncrules.Held, Reason: "rule s is paused", Action: syncrules.Freeze},
		{
			Name: "two rules, one edited", Rules: rules{rule("r", edited), rule("s")}, Copy: copyOf(web(), rule("r"), rule("s")), Source: web(),
			Standing: syncrules.Offered, Action: syncrules.Update,
		},
		{Name: "two rules, one observing", Rules: rules{rule("r"), rule("s", observing)}, Copy: copyOf(web(), rule("r"), rule("s")), Source: web(), Standing: syncrules.Held, Reason: "rule s only observes (spec.mode)", Action: syncrules.Freeze},
		{Name: "two rules, one that did not make it observing", Rules: rules{rule("r"), rule("s", observing)}, Source: web(), Standing: syncrules.Offered, Action: syncrules.None},
		{Name: "two rules, one that did not make it paused", Rules: rules{rule("r"), rule("s", paused)}, Source: web(), Standing: syncrules.Offered, Action: syncrules.None},
		{Name: "moved", Rules: rules{rule("r", moves)}, Copy: copyOf(named, rule("r", moves)), Source: named, Standing: syncrules.Offered, Action: syncrules.None},
		{
			Name: "moved elsewhere since", Rules: rules{rule("r", moves)}, Copy: copyOf(named, rule("r", moves)), Source: web("as", "other"),
			Standing: syncrules.Gone, Policy: v1alpha1.DeletionDelete, Reason: "rule r puts the copy of its source in cluster beta elsewhere now", Action: syncrules.Delete,
		},
		{
			Name: "moved, and now nobody can tell where", Rules: rules{rule("r", moves)}, Copy: copyOf(named, rule("r", moves)), Source: web(),
			Standing: syncrules.Held, Reason: "where rule r puts it cannot be determined", Action: syncrules.Freeze,
		},
	}
}

func compileError(r *v1alpha1.ResourceSyncRule) error {
	_, err := syncrules.Compile(r)
	return err
}
