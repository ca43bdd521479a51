// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package dropped says what an API server did not keep of an object. It is pure.
package dropped

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	maxDropped     = 8  // fields that are named
	maxDroppedPath = 96 // bytes of one of them
)

// Fields returns the paths of the first few fields, in order, that an API server dropped from an object: its schema of
// the kind is older than that of the source. Empty and zero fields do not count, since any server may leave them out.
func Fields(given, kept *unstructured.Unstructured) []string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(given.Object)) {
		if k != "metadata" && k != "status" {
			out = dropped(out, k, given.Object[k], kept.Object[k])
		}
	}
	return out
}

// appendStep adds a step to a path, unless the path is longer already than what is shown of it. A path that grew with each
// level would take time in the square of the depth.
func appendStep(path, step string) string {
	if len(path) > maxDroppedPath {
		return path
	}
	return path + step
}

func dropped(out []string, path string, given, kept any) []string {
	if len(out) >= maxDropped || nothing(given) {
		return out
	}
	if kept == nil {
		if len(path) > maxDroppedPath {
			path = strings.ToValidUTF8(path[:maxDroppedPath], "") + "…"
		}
		return append(out, path)
	}
	switch g := given.(type) {
	case map[string]any:
		if k, ok := kept.(map[string]any); ok {
			for _, key := range slices.Sorted(maps.Keys(g)) {
				out = dropped(out, appendStep(path, "."+key), g[key], k[key])
			}
		}
	case []any:
		if k, ok := kept.([]any); ok && len(k) == len(g) {
			for i := range g {
				out = dropped(out, appendStep(path, "["+strconv.Itoa(i)+"]"), g[i], k[i])
			}
		}
	}
	return out
}

// nothing says that any server may leave a value out.
func nothing(v any) bool {
	switch v := v.(type) {
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return v == nil || v == false || v == "" || v == int64(0) || v == float64(0)
}
