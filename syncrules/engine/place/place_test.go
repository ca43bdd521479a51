// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package place

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

func configMap(namespace, name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": namespace, "name": name},
	}}
}

func TestKeyNamesAnObject(t *testing.T) {
	kind := schema.GroupKind{Kind: "ConfigMap"}
	k := KeyOf(kind, configMap("ns", "x"))
	if k != At(kind, types.NamespacedName{Namespace: "ns", Name: "x"}) || k != At(kind, k.NamespacedName()) {
		t.Errorf("key %+v", k)
	}
	if NameOf(configMap("ns", "x")) != k.NamespacedName() {
		t.Errorf("name %v", NameOf(configMap("ns", "x")))
	}
	if got := k.String(); got != "ConfigMap ns/x" {
		t.Errorf("it is called %q", got)
	}
	if got := (Key{GroupKind: schema.GroupKind{Group: "g", Kind: "Node"}, Name: "n"}).String(); got != "Node n" {
		t.Errorf("one outside namespaces is called %q", got)
	}
}

func TestOrderOfKeys(t *testing.T) {
	key := func(kind, group, namespace, name string) Key {
		return Key{GroupKind: schema.GroupKind{Group: group, Kind: kind}, Namespace: namespace, Name: name}
	}
	ordered := []Key{key("A", "", "z", "z"), key("B", "", "z", "z"), key("B", "g", "a", "b"), key("B", "g", "b", "a"), key("B", "g", "b", "b")}
	if !slices.IsSortedFunc(ordered, Compare) {
		t.Error("keys are ordered otherwise")
	}
	if CompareNames(ordered[3].NamespacedName(), ordered[4].NamespacedName()) >= 0 || CompareNames(ordered[2].NamespacedName(), ordered[3].NamespacedName()) >= 0 {
		t.Error("names are ordered otherwise")
	}
}

func TestScopes(t *testing.T) {
	gvk := schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	everywhere, one := Scope{GVK: gvk}, Scope{GVK: gvk, Namespace: "ns", LabelSelector: "l=v"}
	if !everywhere.Covers("ns") || !one.Covers("ns") || one.Covers("other") || !one.Covers("") {
		t.Error("a scope covers other namespaces")
	}
	if !one.Holds(configMap("ns", "x")) || one.Holds(configMap("other", "x")) || one.Holds(configMap("ns", "")) {
		t.Error("a scope holds other objects")
	}
	other := configMap("ns", "x")
	other.SetKind("Secret")
	if one.Holds(other) {
		t.Error("a scope holds objects of another kind")
	}
	if got, want := one.WithoutCopies().LabelSelector, "!"+v1alpha1.LabelOwnerClusterID+",l=v"; got != want {
		t.Errorf("selector %q, want %q", got, want)
	}
	if got := Copies(gvk, "ns"); "!"+got.LabelSelector != everywhere.WithoutCopies().LabelSelector || got.Namespace != "ns" {
		t.Errorf("copies are in %+v", got)
	}
	scopes := []Scope{{GVK: gvk, Namespace: "b"}, {GVK: gvk, Namespace: "a"}, everywhere}
	scopes = Sorted(slices.Values(scopes))
	if scopes[0] != everywhere || scopes[1].Namespace != "a" {
		t.Errorf("sorted: %v", scopes)
	}
}

func TestKeyOfManyPlaces(t *testing.T) {
	k := Key{GroupKind: schema.GroupKind{Group: "g", Kind: "Thing"}, Namespace: "a", Name: "x"}
	other := k
	other.Namespace = "b"
	many := k.Anywhere()
	if many != other.Anywhere() || many == k || !many.Many() || k.Many() || many.GroupKind != Anywhere(k.GroupKind) {
		t.Errorf("%+v stands for %+v", many, k)
	}
	if many.In("b") != other {
		t.Errorf("%+v is in b", many.In("b"))
	}
}

// What is told apart are the places of rules that make other copies than before: one that another rule makes stays as it is.
func TestUnlike(t *testing.T) {
	gk := schema.GroupKind{Kind: "ConfigMap"}
	key := func(name string) Key { return Key{GroupKind: gk, Namespace: "default", Name: name} }
	to := func(names ...string) (all Destinations) {
		for _, name := range names {
			all = append(all, Destination{To: key(name)})
		}
		return all
	}
	home := key("home")
	for name, c := range map[string]struct {
		now, before Destinations
		rules, then []string
		want        []string
	}{
		"the same":           {to("x", "y"), to("x", "y"), []string{"a", "b"}, []string{"a", "b"}, nil},
		"all at home":        {nil, nil, []string{"a"}, []string{"a"}, nil},
		"one is elsewhere":   {to("x", "z"), to("x", "y"), []string{"a", "b"}, []string{"a", "b"}, []string{"y", "z"}},
		"it was at home":     {to("x"), nil, []string{"a"}, []string{"a"}, []string{"home", "x"}},
		"one rule more":      {nil, nil, []string{"a", "b"}, []string{"a"}, []string{"home"}},
		"one rule less":      {to("x"), to("x", "y"), []string{"a"}, []string{"a", "b"}, []string{"y"}},
		"none of them stays": {nil, to("x", "y"), []string{"c"}, []string{"a", "b"}, []string{"home", "x", "y"}},
	} {
		concerns, got := c.now.Unlike(c.rules, c.before, c.then, home), []string(nil)
		for _, place := range []string{"home", "x", "y", "z"} {
			if concerns(key(place)) {
				got = append(got, place)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	many := Destinations{{To: home.Anywhere()}}
	if concerns := many.Unlike([]string{"a"}, nil, []string{"a"}, home); !concerns(home.In("elsewhere")) || !concerns(home) || concerns(key("x")) {
		t.Error("it is copied into many namespaces now")
	}
}
