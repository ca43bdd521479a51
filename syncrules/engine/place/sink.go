// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package place

import "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

// Sink takes what is found in a Scope. It is called from one goroutine at a time; the objects become its own.
type Sink interface {
	// Replace states everything there is at one moment.
	Replace(objs []*unstructured.Unstructured, resourceVersion string)
	// Upsert states one object that was created or changed.
	Upsert(obj *unstructured.Unstructured)
	// Delete states a deletion that was seen live.
	Delete(namespace, name string, last *unstructured.Unstructured)
	// Health with nil says that the list is complete and the watch live, else why not.
	Health(err error)
}
