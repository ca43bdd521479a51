// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package copies

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/engine/place"
	"github.com/roster-mesh/roster/syncrules/engine/quota"
)

var configMaps = schema.GroupKind{Kind: "ConfigMap"}

func at(gk schema.GroupKind, i int) place.Key {
	return place.Key{GroupKind: gk, Namespace: "default", Name: fmt.Sprint(i)}
}

func configMap() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": "default", "name": "x", "resourceVersion": "7"},
	}}
}

func TestCopyReadsItsMarks(t *testing.T) {
	rule := &v1alpha1.ResourceSyncRule{Spec: v1alpha1.ResourceSyncRuleSpec{
		GVK: v1alpha1.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, Rules: []v1alpha1.SyncRule{{}},
	}}
	rule.Name = "r"
	compiled, err := syncrules.Compile(rule)
	if err != nil {
		t.Fatal(err)
	}
	desired, err := syncrules.Render([]*syncrules.Rule{compiled}, configMap(), syncrules.Input{Owner: "a"})
	if err != nil {
		t.Fatal(err)
	}
	desired.SetResourceVersion("8")
	c, k := New(desired), place.KeyOf(configMaps, desired)
	if c.Owner != "a" || c.Version != "8" || !c.DecidedBy("r") || c.DecidedBy("other") || c.MovedFrom != nil || c.Source(k) != k {
		t.Errorf("copy %+v", c)
	}
	if !c.SelectedBy("r", compiled.Selection()) || c.SelectedBy("r", "of another form") {
		t.Errorf("selections %q", c.Selections)
	}
	set := New(syncrules.Orphan(desired))
	if !set.Orphaned || set.MadeBy("r") || set.CountsLike(c, k) {
		t.Errorf("orphan %+v", set)
	}
	if plain := New(configMap()); plain.Owner != "" {
		t.Errorf("an object without marks has the owner %q", plain.Owner)
	}
	if New(&unstructured.Unstructured{Object: map[string]any{"x": struct{}{}}}) != nil {
		t.Error("no API server sends that")
	}
}

func TestNewer(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{{"2", "1", true}, {"1", "1", true}, {"9", "10", false}, {"x", "10", true}} {
		if got := Newer(c.a, c.b); got != c.want {
			t.Errorf("Newer(%s, %s) = %t", c.a, c.b, got)
		}
	}
}

func TestPutKeepsWhatIsKnown(t *testing.T) {
	x, k := NewIndex(quota.NewStock(1<<30, "here", nil, nil, nil), func([]string) []string { return nil }), at(configMaps, 1)
	given := configMap()
	given.Object["data"] = map[string]any{"v": "1"}
	accepted := syncrules.Accept(syncrules.Decision{Action: syncrules.Update, Desired: given}, configMap())
	x.Put(k, &Copy{Tolerated: true, Dropped: "data.v", Accepted: accepted})
	x.Put(k, &Copy{Version: "2"})
	if c := x.At(k); c.Version != "2" || !c.Tolerated || c.Dropped != "data.v" || c.Accepted != accepted || accepted == (syncrules.Accepted{}) {
		t.Errorf("copy %+v", c)
	}
}

// random is a copy out of few owners, rules and sources, so that they meet.
func random(r *rand.Rand) *Copy {
	c := &Copy{Owner: string('a' + rune(r.IntN(3))), Orphaned: r.IntN(4) == 0, Disabled: r.IntN(4) == 0}
	for range r.IntN(4) {
		c.Rules = append(c.Rules, fmt.Sprint("r", r.IntN(3)))
	}
	if r.IntN(2) == 0 {
		from := at(schema.GroupKind{Kind: "Secret"}, r.IntN(3))
		c.MovedFrom = &from
	}
	return c
}

// The indexes say what one finds by looking at every copy, whatever was put and dropped before.
func TestIndexes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // The same each time.
	kinds := []schema.GroupKind{configMaps, {Kind: "Secret"}}
	x, want := NewIndex(quota.NewStock(1<<30, "here", nil, nil, nil), func([]string) []string { return nil }), map[place.Key]*Copy{}
	for range 5000 {
		k := at(kinds[r.IntN(len(kinds))], r.IntN(12))
		if r.IntN(3) == 0 {
			if old := x.Drop(k); old != want[k] {
				t.Fatalf("%s was dropped as %+v", k, old)
			}
			delete(want, k)
		} else {
			c := random(r)
			if old := x.Put(k, c); old != want[k] {
				t.Fatalf("%s was %+v", k, old)
			}
			want[k] = c
		}
		check(t, x, want, kinds)
	}
	for k := range want {
		x.Drop(k)
	}
	if len(x.kinds) > 0 {
		t.Errorf("%d kinds without copies are kept", len(x.kinds))
	}
}

func check(t *testing.T, x *Index, want map[place.Key]*Copy, kinds []schema.GroupKind) {
	t.Helper()
	weight := int64(0)
	decided, share, all, owned, orphans, moved := map[string]int{}, map[string]int{}, 0, map[string]int{}, map[string]int{}, map[string]int{}
	for k, c := range want {
		if x.At(k) != c || x.All(k.GroupKind)[k.NamespacedName()] != c || x.Of(k.GroupKind, c.Owner)[k.NamespacedName()] != c {
			t.Fatalf("%s is not where it belongs", k)
		}
		all++
		weight += c.Weight()
		owned[c.Owner]++
		rules := slices.Compact(slices.Sorted(slices.Values(c.Rules)))
		for _, rule := range rules {
			switch {
			case c.Orphaned:
				orphans[rule]++
			case !c.Disabled:
				decided[rule+k.Kind]++
				share[rule+k.Kind+c.Owner]++
			}
		}
		if c.MovedFrom != nil {
			moved[k.Kind+c.Owner+c.MovedFrom.String()]++
		}
	}
	if taken := 1<<30 - x.Room(quota.By{Owner: "a"}, time.Time{}); taken != weight {
		t.Fatalf("copies take %d, want %d", taken, weight)
	}
	for _, owner := range []string{"a", "b", "c"} {
		n := 0
		for k := range x.OwnedBy(owner) {
			if n++; want[k].Owner != owner {
				t.Fatalf("%s is of %s", k, want[k].Owner)
			}
		}
		if n != owned[owner] {
			t.Fatalf("%d copies of %s, want %d", n, owner, owned[owner])
		}
	}
	for _, gk := range kinds {
		all -= len(x.All(gk))
		for _, rule := range []string{"r0", "r1", "r2"} {
			if got := x.Decided(gk, rule); got != decided[rule+gk.Kind] {
				t.Fatalf("rule %s decides about %d, want %d", rule, got, decided[rule+gk.Kind])
			}
			if got := slices.Contains(slices.Collect(x.KindsDecidedBy(rule)), gk); got != (decided[rule+gk.Kind] > 0) {
				t.Fatalf("rule %s decides about %s: %t", rule, gk, got)
			}
			owners := map[string]bool{}
			for owner := range x.Owners(gk, rule) {
				owners[owner] = true
			}
			for _, owner := range []string{"a", "b", "c"} {
				if got := x.Share(gk, rule, owner); got != share[rule+gk.Kind+owner] || owners[owner] != (got > 0) {
					t.Fatalf("rule %s decides about %d of %s, want %d", rule, got, owner, share[rule+gk.Kind+owner])
				}
			}
			if n, first := x.Orphans(rule, 3); n != orphans[rule] || len(first) != min(n, 3) || !slices.IsSorted(first) {
				t.Fatalf("rule %s has %d orphans, such as %v; want %d", rule, n, first, orphans[rule])
			}
		}
		for i := range 3 {
			from := at(schema.GroupKind{Kind: "Secret"}, i)
			for _, owner := range []string{"a", "b", "c"} {
				if got := len(x.MovedFrom(gk, owner, from)); got != moved[gk.Kind+owner+from.String()] {
					t.Fatalf("%d were moved from %s of %s", got, from, owner)
				}
			}
		}
	}
	if all != 0 {
		t.Fatalf("%d copies more than there are", -all)
	}
}

func TestFirstOrphans(t *testing.T) {
	all := names{}
	for i := range 20 {
		all[types.NamespacedName{Namespace: "default", Name: fmt.Sprintf("x%02d", (i*7)%20)}] = struct{}{}
	}
	got := firstOf(maps.Clone(all), 3)
	if len(got) != 3 || got[0].Name != "x00" || got[2].Name != "x02" {
		t.Errorf("%v", got)
	}
}
