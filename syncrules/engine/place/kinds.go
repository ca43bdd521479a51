// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package place

import (
	"errors"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ErrKindUnknown is returned of a kind of which it is not known whether it is in namespaces.
var ErrKindUnknown = errors.New("not known yet")

// Kinds is which kinds are in namespaces here, as far as that is known. It is never changed: what is learned makes a new
// one.
type Kinds map[schema.GroupVersionKind]bool

// OutsideNamespaces says that a kind is known to be in no namespace.
func (s Kinds) OutsideNamespaces(gvk schema.GroupVersionKind) bool {
	namespaced, known := s[gvk]
	return known && !namespaced
}

// Namespaced says whether a kind is in namespaces.
func (s Kinds) Namespaced(gvk schema.GroupVersionKind) (bool, error) {
	namespaced, known := s[gvk]
	if !known {
		return false, ErrKindUnknown
	}
	return namespaced, nil
}

// Sum adds up a number of each kind.
func Sum(kinds []schema.GroupKind, of func(schema.GroupKind) int) (n int) {
	for _, gk := range kinds {
		n += of(gk)
	}
	return n
}
