// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package syncrules

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

const (
	self  = "00000000-0000-0000-0000-000000000000"
	other = "bbbbbbbb-0000-0000-0000-000000000000"
)

func offerOf(t testing.TB, owner, value string) *unstructured.Unstructured {
	t.Helper()
	source := object(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: x, namespace: shop}, data: {v: "`+value+`"}}`)
	out, err := Render([]*Rule{ruleFor(t, "", "v1", "ConfigMap")}, source, Input{Owner: owner})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestPlan(t *testing.T) {
	offer := func(owner, value string) Claim {
		return Claim{Origin: owner, Standing: Offered, Desired: offerOf(t, owner, value)}
	}
	with := func(obj *unstructured.Unstructured, annotation string) *unstructured.Unstructured {
		set(t, obj, "", "metadata", "annotations", annotation)
		return obj
	}
	copied := offerOf(t, origin, "1")
	foreign := object(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: x, namespace: shop}, data: {v: "1"}}`)
	willing, adopted := with(foreign.DeepCopy(), v1alpha1.AnnotationAdopt), with(copied.DeepCopy(), v1alpha1.AnnotationAdopted)
	set(t, willing, "r", "metadata", "annotations", v1alpha1.AnnotationAdopt)
	adopts := func(c Claim, rules ...*Rule) Claim {
		c.Adopters = append(rules, &Rule{name: "r"})
		return c
	}
	everything := ruleFor(t, "", "v1", "ConfigMap") // it selects the local object too, which is offered to others then
	everything.name = "r"
	named := willing.DeepCopy()
	set(t, named, "r@"+origin, "metadata", "annotations", v1alpha1.AnnotationAdopt)
	mutual := func(c Claim) Claim {
		c.Adopters = []*Rule{everything}
		return c
	}
	deletes := func(c Claim) Claim { // with its rule
		set(t, c.Desired, "Delete", "metadata", "annotations", v1alpha1.AnnotationRuleDeletionPolicy)
		return c
	}
	dying := copied.DeepCopy()
	now := metav1.Now()
	dying.SetDeletionTimestamp(&now)
	unruled := copied.DeepCopy()
	unstructured.RemoveNestedField(unruled.Object, "metadata", "annotations", v1alpha1.AnnotationRule)
	gone := func(policy v1alpha1.DeletionPolicy) Claim {
		return Claim{Origin: origin, Standing: Gone, Policy: policy}
	}
	released := func(policy v1alpha1.DeletionPolicy) Claim {
		return Claim{Origin: origin, Standing: Released, Policy: policy}
	}
	standing := func(s Standing) Claim { return Claim{Origin: origin, Standing: s} }
	for _, c := range []struct {
		name   string
		facts  Facts
		want   Action
		owner  string
		rivals int
	}{
		{"nothing", Facts{}, None, "", 0},
		{"first offer", Facts{Claims: []Claim{offer(origin, "1")}}, Create, origin, 0},
		{"smaller clusterID", Facts{Claims: []Claim{offer(origin, "1"), offer(other, "2")}}, Create, origin, 1},
		{"equal offers", Facts{Claims: []Claim{offer(origin, "1"), offer(other, "1")}}, Create, origin, 0},
		{"smaller one is about to say", Facts{Claims: []Claim{standing(Awaited), offer(other, "2")}}, Wait, "", 0},
		{"smaller one is silent", Facts{Claims: []Claim{standing(Unknown), offer(other, "2")}}, Create, other, 0},
		{"smaller one is withdrawn", Facts{Claims: []Claim{standing(Held), offer(other, "2")}}, Create, other, 0},
		{"awaited alone", Facts{Claims: []Claim{standing(Awaited)}}, None, "", 0},
		{"local object differs", Facts{Local: foreign, Claims: []Claim{offer(origin, "2")}}, Conflict, "", 1},
		{"local object is the same", Facts{Local: foreign, Claims: []Claim{offer(origin, "1")}}, None, "", 0},
		{"local object alone", Facts{Local: foreign}, None, "", 0},
		{"local object may be adopted, and does not consent", Facts{Local: foreign, Claims: []Claim{adopts(offer(origin, "2"))}}, Conflict, "", 1},
		{"local object consents", Facts{Local: willing, Claims: []Claim{adopts(offer(origin, "2"))}}, Update, origin, 0},
		{"local object consents, and is the same", Facts{Local: willing, Claims: []Claim{adopts(offer(origin, "1")), offer(other, "2")}}, Update, origin, 1},
		{"local object consents to rules of a later cluster", Facts{Local: willing, Claims: []Claim{offer(origin, "2"), adopts(offer(other, "3"))}}, Conflict, "", 2},
		{"local object consents to one of two rules", Facts{Local: willing, Claims: []Claim{adopts(offer(origin, "2"), &Rule{name: "q"})}}, Conflict, "", 1},
		{"local object consents, and is offered to others", Facts{Local: willing, Claims: []Claim{mutual(offer(origin, "2"))}}, Conflict, "", 1},
		{"local object consents, and is offered to others, to the cluster", Facts{Local: named, Claims: []Claim{mutual(offer(origin, "2"))}}, Update, origin, 0},
		{"local object consents, and is offered to others, to another cluster", Facts{Local: named, Claims: []Claim{mutual(offer(other, "2"))}}, Conflict, "", 1},
		{"gone, of an adopted copy", Facts{Local: adopted, Claims: []Claim{gone(v1alpha1.DeletionDelete)}}, MarkOrphan, origin, 0},
		{"let go, of an adopted copy", Facts{Local: adopted, Claims: []Claim{released(v1alpha1.DeletionDelete)}}, MarkOrphan, origin, 0},
		{"marked as our own", Facts{Local: offerOf(t, self, "1"), Claims: []Claim{offer(origin, "1")}}, Conflict, self, 0},
		{"in sync", Facts{Local: copied, Claims: []Claim{offer(origin, "1")}}, None, origin, 0},
		{"changed", Facts{Local: copied, Claims: []Claim{offer(origin, "2")}}, Update, origin, 0},
		{"stays with its owner", Facts{Local: offerOf(t, other, "2"), Claims: []Claim{offer(origin, "1"), offer(other, "2")}}, None, other, 1},
		{"disabled", Facts{Local: with(copied.DeepCopy(), v1alpha1.AnnotationSyncDisabled), Claims: []Claim{offer(origin, "2")}}, Freeze, origin, 0},
		{"disabled and gone", Facts{Local: with(copied.DeepCopy(), v1alpha1.AnnotationSyncDisabled), Claims: []Claim{gone(v1alpha1.DeletionDelete)}}, Freeze, origin, 0},
		{"being deleted", Facts{Local: dying, Claims: []Claim{offer(origin, "2")}}, Freeze, origin, 0},
		{"unknown", Facts{Local: copied, Claims: []Claim{standing(Unknown)}}, Freeze, origin, 0},
		{"awaited", Facts{Local: copied, Claims: []Claim{standing(Awaited)}}, Freeze, origin, 0},
		{"held", Facts{Local: copied, Claims: []Claim{standing(Held)}}, Freeze, origin, 0},
		{"owner without a claim", Facts{Local: copied}, Freeze, origin, 0},
		{"owner without a claim, another offers", Facts{Local: copied, Claims: []Claim{offer(other, "2")}}, Conflict, origin, 1},
		{"unknown, another offers", Facts{Local: copied, Claims: []Claim{standing(Unknown), offer(other, "2")}}, Freeze, origin, 0},
		{"gone", Facts{Local: copied, Claims: []Claim{gone(v1alpha1.DeletionDelete)}}, Delete, origin, 0},
		{"gone, kept", Facts{Local: copied, Claims: []Claim{gone(v1alpha1.DeletionOrphan)}}, MarkOrphan, origin, 0},
		{"gone, another offers", Facts{Local: copied, Claims: []Claim{gone(v1alpha1.DeletionDelete), offer(other, "2")}}, Update, other, 0},
		{"gone, another is held", Facts{Local: copied, Claims: []Claim{gone(v1alpha1.DeletionDelete), {Origin: other, Standing: Held}}}, Delete, origin, 0},
		{"gone, kept, another offers", Facts{Local: copied, Claims: []Claim{gone(v1alpha1.DeletionOrphan), offer(other, "2")}}, MarkOrphan, origin, 1},
		{"let go, another offers", Facts{Local: copied, Claims: []Claim{released(v1alpha1.DeletionDelete), offer(other, "2")}}, Delete, origin, 0},
		{"released", Facts{Local: copied, Claims: []Claim{released(v1alpha1.DeletionOrphan)}}, MarkOrphan, origin, 0},
		{"released to delete", Facts{Local: copied, Claims: []Claim{released(v1alpha1.DeletionDelete)}}, Delete, origin, 0},
		{"no rule made it", Facts{Local: unruled, Claims: []Claim{gone(v1alpha1.DeletionDelete)}}, Freeze, origin, 0},
		{"orphan and gone", Facts{Local: Orphan(copied), Claims: []Claim{gone(v1alpha1.DeletionDelete)}}, Freeze, origin, 0},
		{"orphan is adopted", Facts{Local: Orphan(copied), Claims: []Claim{offer(origin, "1")}}, Update, origin, 0},
		{"orphan, another offers", Facts{Local: Orphan(copied), Claims: []Claim{gone(v1alpha1.DeletionDelete), offer(other, "2")}}, Conflict, origin, 1},
		{"owner left", Facts{Local: copied, OwnerGone: true}, MarkOrphan, origin, 0},
		{"owner left, its rule observes", Facts{Local: copied, OwnerGone: true, Observes: "it looks", Claims: []Claim{offer(other, "1")}}, Freeze, origin, 0},
		{"adopted, in sync", Facts{Local: adopted, Claims: []Claim{deletes(offer(origin, "1"))}}, None, origin, 0},
		{"adopted, changed", Facts{Local: adopted, Claims: []Claim{deletes(offer(origin, "2"))}}, Update, origin, 0},
		{"owner left, orphan already", Facts{Local: Orphan(copied), OwnerGone: true}, Freeze, origin, 0},
		{"owner left, no rule made it", Facts{Local: unruled, OwnerGone: true}, Freeze, origin, 0},
		{"owner left, same elsewhere", Facts{Local: copied, OwnerGone: true, Claims: []Claim{offer(other, "1")}}, Update, other, 0},
		{"owner left, other elsewhere", Facts{Local: copied, OwnerGone: true, Claims: []Claim{offer(other, "2")}}, MarkOrphan, origin, 1},
		{"extra label", Facts{Local: with(copied.DeepCopy(), "x"), Claims: []Claim{offer(origin, "1")}}, Update, origin, 0},
		{"extra label, tolerated", Facts{Local: with(copied.DeepCopy(), "x"), Tolerate: true, Claims: []Claim{offer(origin, "1")}}, None, origin, 0},
		{"change, extra tolerated", Facts{Local: with(copied.DeepCopy(), "x"), Tolerate: true, Claims: []Claim{offer(origin, "2")}}, Update, origin, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.facts.Self = self
			d := Plan(c.facts)
			if d.Action != c.want || d.Owner != c.owner || len(d.Rivals) != c.rivals {
				t.Errorf("got %s, owner %q, rivals %v; want %s, %q, %d", d.Action, d.Owner, d.Rivals, c.want, c.owner, c.rivals)
			}
			if d.Object != nil && (c.facts.Local == adopted || d.Difference != Same && c.facts.Local == willing) && RuleDeletion(d.Object) == v1alpha1.DeletionDelete {
				t.Error("what was adopted is deleted with its rule by agents that do not know better")
			}
		})
	}
}

// Two clusters that offer each other their objects, and consent to all, do not both adopt: one of them keeps the source.
func TestPlanAdoptsOneWay(t *testing.T) {
	rule := ruleFor(t, "", "v1", "ConfigMap")
	rule.name = "r"
	willing := object(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: x, namespace: shop}, data: {v: "mine"}}`)
	set(t, willing, "r", "metadata", "annotations", v1alpha1.AnnotationAdopt)
	between := func(self, peer string) Action {
		claim := Claim{Origin: peer, Standing: Offered, Desired: offerOf(t, peer, "1"), Adopters: []*Rule{rule}}
		return Plan(Facts{Self: self, Local: willing, Claims: []Claim{claim}}).Action
	}
	if first, second := between(self, other), between(other, self); first != Conflict || second != Update {
		t.Errorf("the cluster with the smaller clusterID decides %s, the other one %s", first, second)
	}
}

// TestStatus: if a clause asks for the status, it is written separately, until the copy has it or the server has stored
// another one.
func TestStatus(t *testing.T) {
	r := &v1alpha1.ResourceSyncRule{}
	r.Spec.GVK = v1alpha1.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Thing"}
	r.Spec.Rules = []v1alpha1.SyncRule{{Mutations: v1alpha1.Mutations{SyncStatus: true}}}
	rule, err := Compile(r)
	if err != nil {
		t.Fatal(err)
	}
	source := object(t, `{apiVersion: example.com/v1, kind: Thing, metadata: {name: x, namespace: shop}, spec: {a: 1}, status: {ready: true, list: []}}`)
	desired, err := Render([]*Rule{rule}, source, Input{Owner: origin})
	if err != nil {
		t.Fatal(err)
	}
	local := desired.DeepCopy()
	local.Object["status"] = map[string]any{"ready": false, "old": "x"}
	facts := Facts{Self: self, Local: local, Claims: []Claim{{Origin: origin, Standing: Offered, Desired: desired}}}
	d := Plan(facts)
	if d.Action != UpdateStatus || !equal(d.Object.Object["status"], desired.Object["status"]) {
		t.Fatalf("%s of %v", d.Action, d.Object)
	}
	facts.Local = d.Object
	if got := Plan(facts).Action; got != None {
		t.Errorf("%s after the update", got)
	}
	facts.Local = local // a server that keeps what it had
	if facts.Accepted = Accept(d, local); Plan(facts).Action != None {
		t.Errorf("it is written again although the server has answered")
	}
	set(t, facts.Local, "y", "status", "old")
	if got := Plan(facts).Action; got != UpdateStatus {
		t.Errorf("%s after a change of the status", got)
	}
	set(t, facts.Local, int64(2), "spec", "a")
	if d := Plan(facts); d.Action != Update || !equal(d.Object.Object["status"], desired.Object["status"]) {
		t.Errorf("%s %v: the content comes first, and brings the status where that is no resource of its own", d.Action, d.Object)
	}
}

// taken is what the API server has after the action, nil for nothing.
func taken(local *unstructured.Unstructured, d Decision) *unstructured.Unstructured {
	switch d.Action {
	case Create, Update, UpdateStatus, MarkOrphan:
		return d.Object.DeepCopy()
	case Delete:
		return nil
	case None, Freeze, Wait, Conflict:
	}
	return local
}

func TestScopesOfManyRules(t *testing.T) {
	r := &v1alpha1.ResourceSyncRule{}
	r.Spec.GVK = v1alpha1.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	r.Spec.Rules = []v1alpha1.SyncRule{
		{Matches: []v1alpha1.SyncRuleMatch{{Namespace: "a"}, {Name: "n"}}},
	}
	rule, err := Compile(r)
	if err != nil {
		t.Fatal(err)
	}
	if got := rule.Scopes(); !slices.Equal(got, []Scope{{}}) {
		t.Errorf("scopes %v: one entry needs all namespaces, so one watch holds everything", got)
	}
}
