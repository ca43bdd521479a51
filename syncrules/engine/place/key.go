// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package place

import (
	"cmp"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Key names one object of an API server. Its Namespace is "" for a kind outside namespaces.
type Key struct {
	schema.GroupKind
	Namespace, Name string
}

// At is the Key of what has a name within a kind.
func At(kind schema.GroupKind, name types.NamespacedName) Key {
	return Key{GroupKind: kind, Namespace: name.Namespace, Name: name.Name}
}

// KeyOf is the Key of an object that is known to be of a kind.
func KeyOf(kind schema.GroupKind, obj *unstructured.Unstructured) Key {
	return Key{GroupKind: kind, Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// NameOf is the name of an object within its kind.
func NameOf(obj *unstructured.Unstructured) types.NamespacedName {
	return types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// NamespacedName is the Key within its kind.
func (k Key) NamespacedName() types.NamespacedName {
	return types.NamespacedName{Namespace: k.Namespace, Name: k.Name}
}

// String is for people: the kind, and the name within it.
func (k Key) String() string {
	if k.Namespace == "" {
		return k.Kind + " " + k.Name
	}
	return k.Kind + " " + k.Namespace + "/" + k.Name
}

// Compare orders Keys by kind, group, namespace and name. It is the order in which several sources of one cluster get
// the place of a copy.
func Compare(a, b Key) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Group, b.Group),
		cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// CompareNames orders names within a kind by namespace and name.
func CompareNames(a, b types.NamespacedName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// anywhere ends the kind of a Key that stands for all places of one name, whatever their namespace. No kind is named so.
const anywhere = " in any namespace"

// Anywhere stands for the places of the same kind and name in all namespaces.
func (k Key) Anywhere() Key {
	return Key{GroupKind: Anywhere(k.GroupKind), Name: k.Name}
}

// Anywhere is the kind of the Keys that stand for all places of a kind.
func Anywhere(kind schema.GroupKind) schema.GroupKind {
	kind.Kind += anywhere
	return kind
}

// Fault stands for the copies of an object in a scope of a cluster that have no place. No copy has that Key: there is no such kind.
func (k Key) Fault(cluster string, s Scope) Key {
	k.Kind += " of cluster " + cluster + " in " + s.Namespace + " " + s.LabelSelector + " " + s.FieldSelector
	return k
}

// Many says that the Key stands for all places of a name.
func (k Key) Many() bool { return strings.HasSuffix(k.Kind, anywhere) }

// In is, of a Key that stands for many places, the one in a namespace.
func (k Key) In(namespace string) Key {
	k.Kind, k.Namespace = strings.TrimSuffix(k.Kind, anywhere), namespace
	return k
}
