// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// SeenObject is an object that was read, with the resourceVersion that it had. For as long as etcd keeps its history, a
// server that was not restored still has it at that resourceVersion. The zero value is no object.
type SeenObject struct {
	Key             types.NamespacedName
	ResourceVersion string
}

// AbsentObject is an object that was not there, or did not match the selectors, at a resourceVersion: it was deleted
// then, or a list lacked it. If it is there, matches, and was changed last before that, the server has another history.
type AbsentObject struct {
	SeenObject
	LabelSelector, FieldSelector string
}

// ObjectOf returns the object as one that was seen.
func ObjectOf(obj *unstructured.Unstructured) SeenObject {
	return SeenObject{types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}, obj.GetResourceVersion()}
}

// Newer returns the newer one of two objects.
func (o SeenObject) Newer(other SeenObject) SeenObject {
	if o.ResourceVersion == "" || Before(o.ResourceVersion, other.ResourceVersion) {
		return other
	}
	return o
}

// Before says whether the resourceVersion a is lower than b. Those that are no numbers, as of an API server that is not
// on etcd, have no order.
func Before(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}
