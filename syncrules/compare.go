// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package syncrules

import (
	"maps"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules/others"
)

// Difference is how a copy differs from what it should be.
type Difference uint8

const (
	// Same needs no write.
	Same Difference = iota
	// Extra is a copy that has all that it should have, and labels or annotations that it should not have. If they
	// come back at once, a local controller sets them, and the caller should leave them.
	Extra
	// Changed needs a write.
	Changed
)

// Compare says how a copy, as the API server returns it, differs from a rendered one. It does not look at the status.
func Compare(local, desired *unstructured.Unstructured) Difference {
	if local.GroupVersionKind() != desired.GroupVersionKind() {
		return Changed
	}
	exact := isExact(desired)
	for k, want := range desired.Object {
		if k != "metadata" && k != "status" && !covers(local.Object[k], want, exact) {
			return Changed
		}
	}
	if exact {
		for k, v := range local.Object {
			if _, ok := desired.Object[k]; !ok && k != "metadata" && k != "status" && !empty(v) {
				return Changed
			}
		}
	}
	worst := Same
	for _, field := range []string{"labels", "annotations"} {
		worst = max(worst, compareMetadataMap(metadataMap(local, field), metadataMap(desired, field)))
	}
	return worst
}

// Equivalent says whether an object that exists already has all that a rendered copy has, whoever owns either of them:
// then there is no conflict.
func Equivalent(local, desired *unstructured.Unstructured) bool {
	return Compare(unmarked(local), unmarked(desired)) != Changed
}

// Agree says whether the rendered copies of two origins are the same but for their marks.
func Agree(a, b *unstructured.Unstructured) bool {
	return fingerprint(unmarked(a)) == fingerprint(unmarked(b))
}

// isExact names the kinds without defaults: a field that the rendered copy does not have is a change.
func isExact(obj *unstructured.Unstructured) bool {
	gvk := obj.GroupVersionKind()
	return gvk.Group == "" && (gvk.Kind == "Secret" || gvk.Kind == "ConfigMap")
}

func metadataMap(obj *unstructured.Unstructured, field string) map[string]any {
	metadata, _ := obj.Object["metadata"].(map[string]any)
	m, _ := metadata[field].(map[string]any)
	return m
}

// compareMetadataMap compares labels or annotations.
func compareMetadataMap(local, desired map[string]any) Difference {
	for k, want := range desired {
		if got, ok := local[k]; !ok || got != want {
			return Changed
		}
	}
	worst := Same
	for k := range local {
		if _, ok := desired[k]; ok || isLocalKey(k) || isKubernetesKey(k) {
			continue
		}
		if isMark(k) {
			return Changed // such as the mark of an orphan that has an owner again
		}
		worst = Extra
	}
	return worst
}

// isLocalKey says whether a label or annotation is an instruction to the agent of one cluster.
func isLocalKey(key string) bool {
	return strings.HasPrefix(key, v1alpha1.LocalPrefix) || key == v1alpha1.AnnotationSyncDisabled || key == v1alpha1.AnnotationClusterDisabled
}

// isKubernetesKey says whether a label or annotation is one that Kubernetes itself sets on objects of others
// (kubernetes.io/metadata.name, deployment.kubernetes.io/revision).
func isKubernetesKey(key string) bool {
	prefix, _, found := strings.Cut(key, "/")
	if !found || prefix == "app.kubernetes.io" {
		return others.Controls(key)
	}
	prefix = "." + prefix
	return strings.HasSuffix(prefix, ".kubernetes.io") || strings.HasSuffix(prefix, ".k8s.io")
}

// covers says whether have contains every field of want with the same value. Fields that want does not have may have any
// value, unless exact is set. Lists must have the same length. Null in want means any value; an empty list is equal to a
// missing one, since servers leave it out.
func covers(have, want any, exact bool) bool {
	if exact && empty(want) {
		return empty(have)
	}
	switch w := want.(type) {
	case nil:
		return true
	case map[string]any:
		h, ok := have.(map[string]any)
		if !ok {
			return false
		}
		for k, v := range w {
			if !covers(h[k], v, exact) {
				return false
			}
		}
		if exact {
			for k, v := range h {
				if _, ok := w[k]; !ok && v != nil {
					return false
				}
			}
		}
		return true
	case []any:
		h, ok := have.([]any)
		if (!ok && have != nil) || len(h) != len(w) {
			return false
		}
		for i := range w {
			if !covers(h[i], w[i], exact) {
				return false
			}
		}
		return true
	}
	return scalar(have) == scalar(want)
}

// empty says whether a server may leave out the value. For an empty map that is so only in exact kinds: elsewhere it may
// have a meaning, as in emptyDir: {}.
func empty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}

// scalar makes numbers comparable: 1 and 1.0 are the same value, read from different encodings.
func scalar(v any) any {
	switch v := v.(type) {
	case float64:
		if i := int64(v); float64(i) == v {
			return i
		}
	case map[string]any, []any:
		return struct{}{} // comparable, and equal to no scalar
	}
	return v
}

// shape hashes the paths of all fields of a copy. It sums the hashes of the paths, so that the order of the keys of a
// map does not matter.
func shape(obj *unstructured.Unstructured) string {
	var sum uint64
	for k, v := range obj.Object {
		if k != "status" { // it is written separately
			sum += hashPaths(fnvStart.add(k), v)
		}
	}
	return strconv.FormatUint(sum, 16)
}

// sameShape says that a rendered copy has the same fields as when the local one was written. Copies of earlier releases
// also had the labels and annotations of controllers (others.Controls).
func sameShape(local, desired *unstructured.Unstructured) bool {
	was, is := annotation(local, AnnotationShape), annotation(desired, AnnotationShape)
	sum, err := strconv.ParseUint(is, 16, 64)
	if was == is || err != nil {
		return was == is
	}
	for _, field := range []string{"labels", "annotations"} {
		for k := range metadataMap(local, field) {
			if others.Controls(k) {
				sum += uint64(fnvStart.add("metadata").add("\x00").add(field).add("\x00").add(k))
			}
		}
	}
	return was == strconv.FormatUint(sum, 16)
}

// pathHash is the FNV-1a hash of a path. Each level of an object adds to it: to write out the path of each field would
// take time in the square of the depth.
type pathHash uint64

const fnvStart pathHash = 14695981039346656037

func (h pathHash) add(text string) pathHash {
	for i := range len(text) {
		h = (h ^ pathHash(text[i])) * 1099511628211
	}
	return h
}

// hashPaths sums the hashes of the paths of all fields of a value.
func hashPaths(path pathHash, v any) uint64 {
	var sum uint64
	switch v := v.(type) {
	case map[string]any:
		for k, c := range v {
			sum += hashPaths(path.add("\x00").add(k), c)
		}
	case []any:
		for i, c := range v {
			sum += hashPaths(path.add("\x00").add(strconv.Itoa(i)), c)
		}
	}
	if _, isMap := v.(map[string]any); isMap || !empty(v) {
		sum += uint64(path)
	}
	return sum
}

// unmarked returns the object without the marks of a copy: the labels and annotations that only agents set (isMark). It
// shares everything else with obj.
func unmarked(obj *unstructured.Unstructured) *unstructured.Unstructured {
	out := &unstructured.Unstructured{Object: maps.Clone(obj.Object)}
	metadata := map[string]any{"name": obj.GetName()}
	for _, field := range []string{"labels", "annotations"} {
		kept := maps.Clone(metadataMap(obj, field))
		maps.DeleteFunc(kept, func(k string, _ any) bool { return isMark(k) })
		metadata[field] = kept
	}
	out.Object["metadata"] = metadata
	return out
}

// Updated returns the body of the update request for a copy: the rendered copy, the uid and resourceVersion of the local
// one, and the fields that belong to the target. If no field was removed at the source (the shapes are the same), those
// are all fields that the rendered copy does not have. Otherwise they are only the fields that a server does not allow to
// be removed (allocated). The status of the rendered copy is included for kinds whose status is not a subresource.
func Updated(local, desired *unstructured.Unstructured) *unstructured.Unstructured {
	out := desired.DeepCopy()
	from, _ := local.Object["metadata"].(map[string]any)
	to := child(out.Object, "metadata")
	for _, field := range []string{"uid", "resourceVersion", "finalizers", "ownerReferences"} {
		if v, ok := from[field]; ok {
			to[field] = runtime.DeepCopyJSONValue(v)
		}
	}
	same := sameShape(local, desired)
	for _, field := range []string{"labels", "annotations"} {
		for k, v := range metadataMap(local, field) {
			if _, ok := metadataMap(desired, field)[k]; !ok && (isLocalKey(k) || others.Controls(k) || same && isKubernetesKey(k)) {
				child(to, field)[k] = v
			}
		}
	}
	if status, ok := local.Object["status"]; ok && desired.Object["status"] == nil {
		out.Object["status"] = runtime.DeepCopyJSONValue(status)
	}
	switch {
	case isExact(desired):
	case same:
		for k, v := range local.Object {
			if k != "metadata" && k != "status" {
				out.Object[k] = overlay(v, out.Object[k])
			}
		}
	default:
		keepAllocated(local, out)
	}
	return out
}

func keepAllocated(local, out *unstructured.Unstructured) {
	gvk := out.GroupVersionKind()
	for _, path := range others.Allocated(gvk.Group, gvk.Kind) {
		v, found, err := unstructured.NestedFieldCopy(local.Object, path...)
		if _, named, _ := unstructured.NestedFieldNoCopy(out.Object, path...); !found || err != nil || named {
			continue
		}
		if err := unstructured.SetNestedField(out.Object, v, path...); err != nil {
			continue // a parent of the field is not a map
		}
	}
}

// overlay merges want into have; where both have a value, that of want wins. The result may share parts of want.
func overlay(have, want any) any {
	switch w := want.(type) {
	case nil:
		return runtime.DeepCopyJSONValue(have)
	case map[string]any:
		h, ok := have.(map[string]any)
		if !ok {
			return w
		}
		for k, v := range h {
			w[k] = overlay(v, w[k])
		}
	case []any:
		h, ok := have.([]any)
		if !ok || len(h) != len(w) {
			return w
		}
		for i := range w {
			w[i] = overlay(h[i], w[i])
		}
	}
	return want
}
