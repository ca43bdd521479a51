// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ref names objects, in JSON and to people.
package ref

import (
	"strings"

	"github.com/roster-mesh/roster/syncrules"
)

// Object names an object. Its JSON is stable: fields are only ever added.
type Object struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
}

// Of names the object in a place.
func Of(at syncrules.Place) Object {
	v, kind := at.ToAPIVersionAndKind()
	return Object{v, kind, at.Namespace, at.Name}
}

// String is for people.
func (o Object) String() string {
	kind := o.Kind
	if group, _, found := strings.Cut(o.APIVersion, "/"); found {
		kind += "." + group
	}
	if o.Namespace == "" {
		return kind + " " + o.Name
	}
	return kind + " " + o.Namespace + "/" + o.Name
}
