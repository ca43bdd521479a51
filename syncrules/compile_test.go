// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package syncrules

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// A path that computes values can need more memory than there is.
func TestContentKeysOnlyLook(t *testing.T) {
	for _, key := range []string{
		"@tostr", "@tostr|@tostr", "a.@tostr", "a|@this", "#(@tostr==x).a", "#( @tostr==x).a", "[a,b]", "a.[a,b]", "{a,b}", `a\.@tostr`, "!true",
	} {
		if !computesValue(key) {
			t.Errorf("%s is let through", key)
		}
	}
	for _, key := range []string{"a.b.0.c", `metadata.annotations.example\.com/a@b`, `spec.containers.#(name=="x").image`, "a.#", "*.b?"} {
		if computesValue(key) {
			t.Errorf("%s is refused", key)
		}
	}
	object := []byte(`{"a":"\"b\"","b":[{"a":"x","c":[1,2]},{"a":"y"}],"tostr":{"a":"b"}}`)
	parts := []string{"@tostr", "@this", "[@this,@this]", "{a,a}", ".", "|", "#", "(", ")", "a", "b", `"`, `\`, " ", "=", "~", "%", "*", "0", "!"}
	rapid.Check(t, func(t *rapid.T) {
		key := strings.Join(rapid.SliceOfN(rapid.SampledFrom(parts), 1, 12).Draw(t, "key"), "")
		if got := gjson.GetBytes(object, key); !computesValue(key) && len(got.Raw) > len(object) {
			t.Fatalf("%s makes %s", key, got.Raw)
		}
	})
}

// A rule of a peer did not go through admission here.
func TestRulesAreBounded(t *testing.T) {
	names := func(prefix string, n int) (out []string) {
		for i := range n {
			out = append(out, fmt.Sprintf("%s-%d", prefix, i))
		}
		return out
	}
	for what, matches := range map[string][]v1alpha1.SyncRuleMatch{
		"namespaces of one entry": {{Namespaces: names("a", 10_000)}},
		"namespaces of all":       {{Namespaces: names("a", 200)}, {Namespaces: names("b", 200)}},
		"content":                 {{Content: make([]v1alpha1.ContentSelector, 10_000)}},
		"no label":                {{Labels: []metav1.LabelSelector{{MatchLabels: map[string]string{"app": "not a value"}}}}},
		"a path that computes":    {{Content: []v1alpha1.ContentSelector{{Key: "@tostr|@tostr"}}}},
	} {
		rule := &v1alpha1.ResourceSyncRule{Spec: v1alpha1.ResourceSyncRuleSpec{
			GVK: v1alpha1.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, Rules: []v1alpha1.SyncRule{{Matches: matches}},
		}}
		if _, err := Compile(rule); err == nil || len(err.Error()) > 1000 {
			t.Errorf("%s: %v", what, err)
		}
	}
}
