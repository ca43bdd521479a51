// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package documents

import (
	"reflect"
	"slices"
	"strings"
)

// elsewhere says where the type of an object has fields of that name, if it has any in its spec: "; there is spec.rules[].match".
func elsewhere(path string, into any) string {
	name := path[strings.LastIndexByte(path, '.')+1:]
	spec, found := fieldOf("spec", reflect.TypeOf(into))
	if !found || name == "" {
		return ""
	}
	if places := named(name, "spec", spec, nil); len(places) > 0 {
		return "; there is " + strings.Join(places, ", and ")
	}
	return ""
}

// named are the fields of a name below a type, as paths. above are the types that it is in.
func named(name, path string, in reflect.Type, above []reflect.Type) (places []string) {
	for in.Kind() == reflect.Pointer || in.Kind() == reflect.Slice {
		if in.Kind() == reflect.Slice {
			path += "[]"
		}
		in = in.Elem()
	}
	if in.Kind() != reflect.Struct || slices.Contains(above, in) {
		return nil
	}
	if _, found := fieldOf(name, in); found {
		places = append(places, path+"."+name)
	}
	for f := range in.Fields() {
		below := path
		if tag := tagOf(f); tag != "" {
			below += "." + tag
		} else if !f.Anonymous {
			continue
		}
		places = append(places, named(name, below, f.Type, append(above, in))...)
	}
	return places
}

// fieldOf is the type of a field of a struct, by its name in JSON.
func fieldOf(name string, in reflect.Type) (reflect.Type, bool) {
	for in.Kind() == reflect.Pointer {
		in = in.Elem()
	}
	if in.Kind() != reflect.Struct {
		return nil, false
	}
	for f := range in.Fields() {
		if tagOf(f) == name {
			return f.Type, true
		}
	}
	return nil, false
}

func tagOf(f reflect.StructField) string {
	tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return tag
}
