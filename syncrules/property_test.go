// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package syncrules

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"pgregory.net/rapid"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules/consent"
)

// values draws small JSON trees, from few keys, so that trees collide.
func values(depth int) *rapid.Generator[any] {
	scalars := rapid.SampledFrom([]any{nil, "x", "y", "", int64(1), 1.5, true, map[string]any{}, []any{}})
	if depth == 0 {
		return scalars
	}
	return rapid.OneOf(scalars,
		rapid.Map(rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c"}), values(depth-1), 0, 3), func(m map[string]any) any { return m }),
		rapid.Map(rapid.SliceOfN(values(depth-1), 0, 2), func(s []any) any { return s }))
}

func texts() *rapid.Generator[map[string]any] {
	keys := []string{"a", "b", "example.com/c", "x.k8s.io/d", v1alpha1.LocalPrefix + "e", v1alpha1.AnnotationOrphaned}
	return rapid.MapOfN(rapid.SampledFrom(keys), rapid.SampledFrom([]any{"1", "2"}), 0, 4)
}

var kinds = []string{"ConfigMap", "Service", "Thing"}

func objects() *rapid.Generator[*unstructured.Unstructured] {
	return rapid.Custom(func(t *rapid.T) *unstructured.Unstructured {
		o := map[string]any{"apiVersion": "v1", "kind": rapid.SampledFrom(kinds).Draw(t, "kind"), "metadata": map[string]any{
			"name": "x", "namespace": "shop", "uid": "u", "resourceVersion": "1",
			"labels": texts().Draw(t, "labels"), "annotations": texts().Draw(t, "annotations"),
		}}
		for _, field := range []string{"data", "spec", "status"} {
			if v := values(3).Draw(t, field); v != nil {
				o[field] = v
			}
		}
		return &unstructured.Unstructured{Object: o}
	})
}

func rules() *rapid.Generator[*v1alpha1.ResourceSyncRule] {
	keys := rapid.SampledFrom([]string{"a", "b", "example.com/c"})
	mutation := func(t *rapid.T, name string) (map[string]string, []string) {
		return rapid.MapOfN(keys, rapid.SampledFrom([]string{"1", "3"}), 0, 2).Draw(t, name),
			rapid.SliceOfN(keys, 0, 1).Draw(t, name+" removed")
	}
	return rapid.Custom(func(t *rapid.T) *v1alpha1.ResourceSyncRule {
		r := &v1alpha1.ResourceSyncRule{}
		r.Name = rapid.SampledFrom([]string{"r", "s"}).Draw(t, "name")
		for range rapid.IntRange(1, 3).Draw(t, "clauses") {
			l, lr := mutation(t, "labels")
			a, ar := mutation(t, "annotations")
			r.Spec.Rules = append(r.Spec.Rules, v1alpha1.SyncRule{Mutations: v1alpha1.Mutations{
				SyncStatus:  rapid.Bool().Draw(t, "status"),
				Overrides:   rapid.SliceOfN(overrides(), 0, 2).Draw(t, "overrides"),
				Labels:      &v1alpha1.LabelMutations{Add: l, Remove: lr},
				Annotations: &v1alpha1.AnnotationMutations{Add: a, Remove: ar},
			}})
		}
		return r
	})
}

// overrides draws ones that fit every object and say the same of a copy as of its source.
func overrides() *rapid.Generator[v1alpha1.Override] {
	return rapid.SampledFrom([]v1alpha1.Override{
		{Path: "/extra?", Value: "x"},
		{Path: "/extra2?/deep", Value: "{a: [1, {b: c}]}", ParseValue: true},
		{Path: "/metadata/labels?/a", Value: "overridden"},
		{Path: "/metadata/annotations?/made", Value: "{{ .Object.GetName }}-{{ .Object.metadata.namespace | upper }}"},
		{Path: "/metadata/annotations?", Value: "{b: c}", ParseValue: true},
		{Path: "/metadata/labels?", Type: v1alpha1.OverrideRemove},
		{Path: "/data?", Type: v1alpha1.OverrideRemove},
		{Path: "/clusters?", Value: "{{ .Cluster.Name }}/{{ range $k, $v := .LocalCluster.Labels }}{{ $k }}{{ $v }}{{ end }}"},
		{Path: "/keys?", Value: `{{ $x := dict "c" 1 "b" 2 "a" 3 }}{{ keys $x }}{{ values $x }}{{ $x }}`},
	})
}

func input(owner string) Input {
	return Input{Owner: owner, Cluster: cluster(owner, "paris"), LocalCluster: cluster(self, "tokyo")}
}

func render(t *rapid.T, api *v1alpha1.ResourceSyncRule, source *unstructured.Unstructured, owner string) *unstructured.Unstructured {
	api = api.DeepCopy()
	api.Spec.GVK = v1alpha1.GroupVersionKind{Version: "v1", Kind: source.GetKind()}
	rule, err := Compile(api)
	if err != nil {
		t.Fatal(err)
	}
	out, err := Render([]*Rule{rule}, source, input(owner))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func readsContent(t *rapid.T, api *v1alpha1.ResourceSyncRule) bool {
	api = api.DeepCopy()
	api.Spec.GVK = v1alpha1.GroupVersionKind{Version: "v1", Kind: "Any"}
	rule, err := Compile(api)
	if err != nil {
		t.Fatal(err)
	}
	return rule.ReadsContent()
}

func TestMutateTwiceIsOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rule, source := rules().Draw(t, "rule"), objects().Draw(t, "source")
		before := source.DeepCopy()
		once := render(t, rule, source, origin)
		if !equal(source.Object, before.Object) {
			t.Fatalf("the source was changed")
		}
		if again := render(t, rule, source, origin); !equal(again.Object, once.Object) {
			t.Fatalf("once %v\nagain %v", once.Object, again.Object)
		}
		if twice := render(t, rule, once, origin); !equal(twice.Object, once.Object) {
			t.Fatalf("once %v\ntwice %v", once.Object, twice.Object)
		}
		trimmed := source.DeepCopy()
		if !readsContent(t, rule) {
			Trim(trimmed)
		}
		if again := render(t, rule, trimmed, origin); !equal(again.Object, once.Object) {
			t.Fatalf("trimmed %v\nwhole %v", again.Object, once.Object)
		}
	})
}

// TestPlace: a rendered copy is where Target says, in a scope that is watched, and Source returns the place of its source.
func TestPlace(t *testing.T) {
	names := rapid.SampledFrom([]v1alpha1.Override{
		{Path: "/metadata/name", Value: "fixed"},
		{Path: "/metadata/name", Value: `{{ .Object.GetName }}-{{ .Cluster.Name }}`},
		{Path: "/metadata/name", Value: `{{ repeat 70 "x" }}`},
		{Path: "/metadata/namespace", Value: "fixed"},
		{Path: "/metadata/namespace", Value: `{{ .Object.GetNamespace }}-copies`},
		{Path: "/metadata/namespace", Type: v1alpha1.OverrideRemove},
		{Path: "/extra?", Value: "x"},
	})
	gvks := rapid.SampledFrom([]*v1alpha1.GroupVersionKind{nil, {}, {Kind: "Other"}, {Version: "v2"}, {Group: "g", Kind: "ClusterThing"}, {Kind: "Unknown"}})
	matches := rapid.SampledFrom([][]v1alpha1.SyncRuleMatch{nil, {{Name: "x"}}, {{Namespaces: []string{"shop", "store"}}}, {{Name: "other"}}})
	rapid.Check(t, func(t *rapid.T) {
		api := &v1alpha1.ResourceSyncRule{}
		source := objects().Draw(t, "source")
		api.Spec.GVK = v1alpha1.GroupVersionKind{Version: "v1", Kind: source.GetKind()}
		for range rapid.IntRange(1, 4).Draw(t, "clauses") {
			api.Spec.Rules = append(api.Spec.Rules, v1alpha1.SyncRule{Matches: matches.Draw(t, "match"), Mutations: v1alpha1.Mutations{
				GVK: gvks.Draw(t, "kind"), Overrides: rapid.SliceOfN(names, 0, 2).Draw(t, "overrides"),
			}})
		}
		rule, err := Compile(api)
		if err != nil {
			t.Fatal(err)
		}
		in := input(origin)
		in.Namespaced = namespaced
		if !rule.Match(source) {
			return
		}
		desired, err := Render([]*Rule{rule}, source, in)
		place, placeErr := rule.Target(source, in)
		if err != nil || placeErr != nil {
			if err == nil || placeErr == nil || !errors.Is(err, ErrOverride) {
				t.Fatalf("Render says %v, Target says %v", err, placeErr)
			}
			return
		}
		if place != PlaceOf(desired) || Source(desired) != PlaceOf(source) || !rule.Moves() && place != PlaceOf(source) {
			t.Fatalf("from %v to %v: Target says %v, Source %v", PlaceOf(source), PlaceOf(desired), place, Source(desired))
		}
		isNamespaced, err := namespaced(place.GroupVersionKind)
		if !slices.ContainsFunc(rule.TargetScopes(), func(s TargetScope) bool {
			return s.GVK == place.GroupVersionKind && (s.Namespace == "" || s.Namespace == place.Namespace || err == nil && !isNamespaced)
		}) {
			t.Fatalf("%v is in none of %v", place, rule.TargetScopes())
		}
		again, err := Render([]*Rule{rule}, desired.DeepCopy(), in)
		if PlaceOf(desired) == PlaceOf(source) && (err != nil || !equal(again, desired)) {
			t.Fatalf("again %v (%v)\nonce %v", again, err, desired)
		}
	})
}

func TestUpdateReachesWhatIsDesired(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rule := rules().Draw(t, "rule")
		old, fresh, tampered := objects().Draw(t, "old"), objects().Draw(t, "fresh"), objects().Draw(t, "tampered")
		fresh.SetKind(old.GetKind())
		tampered.SetKind(old.GetKind())
		local := render(t, rule, old, origin)
		if rapid.Bool().Draw(t, "tamper") { // with anything but another kind
			local.Object["spec"], local.Object["data"] = tampered.Object["spec"], tampered.Object["data"]
			local.SetLabels(tampered.GetLabels())
		}
		desired := render(t, rule, fresh, origin)
		if !sameStatus(Updated(local, desired), desired) {
			t.Fatalf("the update lacks the status of %v", desired.Object)
		}
		if d := Compare(Updated(local, desired), desired); d != Same {
			t.Fatalf("difference %d after updating\n%v to\n%v: got\n%v", d, local.Object, desired.Object, Updated(local, desired).Object)
		}
	})
}

func TestPlanIsIdempotent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rule := rules().Draw(t, "rule")
		facts := Facts{Self: self, OwnerGone: rapid.Bool().Draw(t, "owner gone")}
		shared := objects().Draw(t, "shared")
		pick := func(name string) *unstructured.Unstructured {
			if rapid.Bool().Draw(t, name+" shared") {
				return shared
			}
			o := objects().Draw(t, name)
			o.SetKind(shared.GetKind())
			return o
		}
		switch rapid.IntRange(0, 3).Draw(t, "local") {
		case 0:
			facts.Local = pick("foreign")
		case 1:
			facts.Local = render(t, rule, pick("copy"), rapid.SampledFrom([]string{origin, other, self}).Draw(t, "owner"))
		case 2:
			facts.Local = Orphan(render(t, rule, pick("orphan"), origin))
		}
		for _, id := range []string{origin, other} {
			if facts.OwnerGone && id == origin || rapid.Bool().Draw(t, "no claim") {
				continue
			}
			c := Claim{
				Origin: id, Standing: Standing(rapid.IntRange(0, int(Released)).Draw(t, "standing")),
				Policy: rapid.SampledFrom([]v1alpha1.DeletionPolicy{v1alpha1.DeletionDelete, v1alpha1.DeletionOrphan}).Draw(t, "policy"),
			}
			if c.Standing == Offered {
				c.Desired = render(t, rule, pick("offer"), id)
			}
			facts.Claims = append(facts.Claims, c)
		}
		if facts.OwnerGone && (facts.Local == nil || Owner(facts.Local) != origin) {
			facts.OwnerGone = false
		}
		marked := facts.Local != nil && IsCopy(facts.Local)
		first := Plan(facts)
		if facts.Local != nil && !marked && first.Action != None && first.Action != Conflict {
			t.Fatalf("%s of an object without marks", first.Action)
		}
		// A deleted copy makes room for another origin, and an heir has an owner that is there.
		for range 2 {
			facts.Local = taken(facts.Local, first)
			facts.OwnerGone = facts.OwnerGone && facts.Local != nil && Owner(facts.Local) == origin
			first = Plan(facts)
		}
		switch first.Action {
		case None, Freeze, Conflict, Wait:
		case Create, Update, UpdateStatus, Delete, MarkOrphan:
			t.Fatalf("plan says %s again, of %v", first.Action, facts.Local)
		}
	})
}

// FuzzCompileRender: no rule and no object, however odd, makes Compile, Match, Target, Render, Compare or Plan panic
// or take long, and what is rendered carries its owner, is where Target says, and is the same each time.
func FuzzCompileRender(f *testing.F) {
	for _, seed := range [][2]string{
		{
			`{"metadata":{"name":"r"},"spec":{"groupVersionKind":{"version":"v1","kind":"ConfigMap"},"rules":[{"match":[{"content":[{"key":"data.#(a%\"*\").b|@this","value":"x"}]}],"mutations":{"labels":{"add":{"a":"b"},"remove":["c"]}}}]}}`,
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","labels":{"c":"d"}},"data":{"a":[{"b":"x"}]}}`,
		},
		{
			`{"spec":{"groupVersionKind":{"version":"v1","kind":"Secret"},"rules":[{}]}}`,
			`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"x","annotations":null},"data":7,"stringData":{"a":"b"}}`,
		},
		{
			`{"spec":{"groupVersionKind":{"version":"v1","kind":"Service"},"rules":[{"match":[{"objectKey":null,"name":"x"}]}]}}`,
			`{"apiVersion":"v1","kind":"Service","metadata":{"name":"x"},"spec":[]}`,
		},
		{
			`{"spec":{"groupVersionKind":{"version":"v1","kind":"Thing"},"rules":[{"mutations":{"groupVersionKind":{"group":"g","kind":"Other"},"syncStatus":true,"overrides":[{"path":"/metadata/name","value":"{{ .Object.GetName }}-{{ .Cluster.Name | upper | trunc 3 }}"},{"path":"/metadata/namespace","value":"elsewhere"},{"path":"/spec/l/name=x?/v?","value":"{{ range $k, $v := .Object.spec }}{{ $k }}{{ $v }}{{ end }}"},{"path":"/metadata/labels?","value":"{a: \"{{ .Object.status.x }}\"}","parseValue":true},{"path":"/status/x?","type":"remove"}]}}]}}`,
			`{"apiVersion":"v1","kind":"Thing","metadata":{"name":"x","namespace":"shop"},"spec":{"l":[{"name":"x"},{"name":"y","v":[1,{"a":null}]}]},"status":{"x":"1"}}`,
		},
		{
			`{"spec":{"groupVersionKind":{"version":"v1","kind":"Thing"},"rules":[{"mutations":{"overrides":[{"path":"/a?","value":"{{ range until 99999 }}{{ range until 99999 }}{{ end }}{{ end }}"},{"path":"/b?","value":"{{ $d := dict \"a\" .Object }}{{ $_ := set $d \"b\" $d }}{{ toJson $d | regexReplaceAll \"(a|b)*\" \"$1\" | printf \"%9999s%*d\" | splitList \"\" | join \",\" }}"},{"path":"/c?","value":"[&a [x,x,x],&b [*a,*a,*a],[*b,*b]]","parseValue":true},{"path":"/d?","value":"{{ define \"t\" }}{{ template \"t\" . }}{{ end }}{{ template \"t\" $ }}"}]}}]}}`,
			`{"apiVersion":"v1","kind":"Thing","metadata":{"name":"x"}}`,
		},
		{
			`{"spec":{"groupVersionKind":{"version":"v1","kind":"Thing"},"rules":[{"mutations":{"overrides":[{"path":"/spec/l/0:before","value":"{{ index .Object.spec.l 0 | default (list 1 2) | toString | b64enc | repeat 3 | sha256sum }}"},{"path":"/spec/l/-1:prev","type":"remove"},{"path":"/spec/l/-","value":"{{ with .Object.spec }}{{ .l | len | add 1 | until | uniq | reverse | toJson }}{{ end }}","parseValue":true}]}}]}}`,
			`{"apiVersion":"v1","kind":"Thing","metadata":{"name":"x"},"spec":{"l":[1,2,3]}}`,
		},
	} {
		f.Add([]byte(seed[0]), []byte(seed[1]))
	}
	f.Fuzz(func(t *testing.T, ruleJSON, sourceJSON []byte) {
		var api v1alpha1.ResourceSyncRule
		if json.Unmarshal(ruleJSON, &api) != nil {
			return
		}
		source := &unstructured.Unstructured{}
		if utiljson.Unmarshal(sourceJSON, &source.Object) != nil || source.Object == nil {
			return
		}
		compileAndRender(t, &api, source)
	})
}

func compileAndRender(t *testing.T, api *v1alpha1.ResourceSyncRule, source *unstructured.Unstructured) {
	var rule *Rule
	var desired *unstructured.Unstructured
	var err error
	bounded(t, "compiling", func() { rule, err = Compile(api) })
	if err != nil {
		return
	}
	rule.Scopes()
	rule.TargetScopes()
	if !rule.Match(source) {
		return
	}
	in := input(origin)
	in.Namespaced = namespaced
	bounded(t, "rendering", func() { desired, err = Render([]*Rule{rule}, source, in) })
	if err != nil {
		return
	}
	if Owner(desired) != origin || Compare(desired, desired) != Same {
		t.Fatalf("rendered %v", desired.Object)
	}
	if place, err := rule.Target(source, in); err != nil || place != PlaceOf(desired) {
		t.Fatalf("in %v, Target says %v (%v)", PlaceOf(desired), place, err)
	}
	if again, err := Render([]*Rule{rule}, source, in); err != nil || !equal(again, desired) {
		t.Fatalf("again %v (%v)", again, err)
	}
	_ = consent.Policy{}.Refuse(desired)
	if d := Plan(Facts{Self: self, Local: source, Claims: []Claim{{Origin: origin, Standing: Offered, Desired: desired}}}); d.Action == Delete {
		t.Fatalf("an offer deletes")
	}
}
