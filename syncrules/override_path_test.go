// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package syncrules

import (
	"encoding/json"
	"testing"

	"github.com/cppforlife/go-patch/patch"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// asLibrary and asJSON turn values into those of go-patch and back.
func asLibrary(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[any]any{}
		for k, c := range v {
			out[k] = asLibrary(c)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, c := range v {
			out[i] = asLibrary(c)
		}
		return out
	}
	return v
}

func asJSON(v any) any {
	switch v := v.(type) {
	case map[any]any:
		out := map[string]any{}
		for k, c := range v {
			out[k.(string)] = asJSON(c)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, c := range v {
			out[i] = asJSON(c)
		}
		return out
	}
	return v
}

// FuzzPath: no path and no object makes an override panic, and the result is that of go-patch.
func FuzzPath(f *testing.F) {
	doc := []byte(`{"a":{"b":[1,{"name":"x","v":[]},{"name":"y"}],"c~d":{"e/f":null}},"l":[[1,2],{"n":{}}]}`)
	for _, path := range []string{
		"/a/b/0", "/a/b/-", "/a/b/name=x/v/-", "/a/b/name=z?/w", "/a/b/name=y:prev/v", "/a/b/-1:after", "/a/b/1:before", "/n?/m/o",
		"/n?/-", "/n?/name=x/y", "/a/c~0d/e~1f", "/l/0/1:next", "/l/0/1:prev", "/l/1/n/k?", "/a/b/name=x", "/a/b/9", "/l/-0", "/a?", "/a/b/:next",
		"/a/b/name=x?:after", "/a/b/0:next:next:prev", "/-", "/a/-/b", "/a/b/9223372036854775807:next", "/a/b/-9223372036854775808:prev",
	} {
		f.Add(path, doc, true)
		f.Add(path, doc, false)
	}
	f.Fuzz(func(t *testing.T, path string, data []byte, remove bool) {
		var object any
		if utiljson.Unmarshal(data, &object) != nil {
			return
		}
		if _, ok := object.(map[string]any); !ok {
			return
		}
		tokens, err := parsePath(path, remove)
		if err != nil {
			return
		}
		pointer := patch.MustNewPointerFromString(path)
		theirs, wantErr := asLibrary(object), error(nil)
		ours, m := runtime.DeepCopyJSONValue(object), &meter{left: budget}
		if remove {
			theirs, wantErr = patch.RemoveOp{Path: pointer}.Apply(theirs)
			ours, err = removeAt(ours, tokens, m)
		} else {
			theirs, wantErr = patch.ReplaceOp{Path: pointer, Value: "new"}.Apply(theirs)
			ours, err = replaceAt(ours, tokens, "new", m)
		}
		if (err != nil) != (wantErr != nil) {
			t.Fatalf("%s of %s: %v, go-patch says %v", path, data, err, wantErr)
		}
		if err != nil {
			return
		}
		if diff := cmp.Diff(asJSON(theirs), ours); diff != "" {
			t.Fatalf("%s of %s: go-patch (-), here (+):\n%s", path, data, diff)
		}
		if _, err := json.Marshal(ours); err != nil {
			t.Fatal(err)
		}
	})
}

// TestPathsSpendTheBudget: steps through long lists spend the budget of the copy.
func TestPathsSpendTheBudget(t *testing.T) {
	list := make([]any, budget/4)
	for i := range list {
		list[i] = int64(i)
	}
	object, m := map[string]any{"list": list}, &meter{left: budget}
	tokens, err := parsePath("/list/name=x?/v", false)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		if _, err := replaceAt(object, tokens, "x", m); err != nil {
			if i < 2 {
				t.Errorf("stopped at once: %v", err)
			}
			return
		}
		object["list"] = list
	}
	t.Error("not stopped")
}
