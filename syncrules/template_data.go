// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package syncrules

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// document is .Object in a template: the source as JSON. Templates read it by the names of its fields
// (.Object.metadata.name) or, as with a typed object, by the methods below. A template can call these as often as it
// likes, so each of them is only a lookup.
type document map[string]any

func (o document) metadata(field string) any {
	m, _ := o["metadata"].(map[string]any)
	return m[field]
}

func (o document) texts(field string) map[string]any {
	m, _ := o.metadata(field).(map[string]any)
	return m
}

// The fields of a typed object, by their Go names.

func (o document) APIVersion() any             { return o["apiVersion"] }
func (o document) Kind() any                   { return o["kind"] }
func (o document) Name() any                   { return o.metadata("name") }
func (o document) Namespace() any              { return o.metadata("namespace") }
func (o document) UID() any                    { return o.metadata("uid") }
func (o document) Labels() map[string]any      { return o.texts("labels") }
func (o document) Annotations() map[string]any { return o.texts("annotations") }
func (o document) Spec() any                   { return o["spec"] }
func (o document) Data() any                   { return o["data"] }
func (o document) Type() any                   { return o["type"] }
func (o document) Status() any                 { return o["status"] }

// Object is for templates that were written for an unstructured object.
func (o document) Object() document { return o }

// The methods of every typed object. A missing namespace is "".

func (o document) GetAPIVersion() any             { return o["apiVersion"] }
func (o document) GetKind() any                   { return o["kind"] }
func (o document) GetName() any                   { return o.metadata("name") }
func (o document) GetNamespace() string           { return textOf(o.metadata("namespace")) }
func (o document) GetUID() any                    { return o.metadata("uid") }
func (o document) GetLabels() map[string]any      { return o.texts("labels") }
func (o document) GetAnnotations() map[string]any { return o.texts("annotations") }

func textOf(v any) string {
	text, _ := v.(string)
	return text
}

// trimmedAway says whether the fields of .Object that a template reads may be fields that Trim removes.
func trimmedAway(fields []string) bool {
	if len(fields) == 0 {
		return true // all of it
	}
	switch fields[0] {
	case "status", "Status", "UID", "GetUID", "Object":
		return true
	case "metadata":
		return len(fields) == 1 || !slices.Contains([]string{"name", "namespace", "labels", "annotations"}, fields[1])
	}
	return false
}

// data returns what a template is executed on. A template that can change values gets its own copy of all data, so that
// other templates do not see its changes.
func (x *rendering) data(p *program) (map[string]any, error) {
	out := map[string]any{"Object": document(x.source.Object)}
	if p.mutates {
		if err := x.meter.tree(x.source.Object); err != nil {
			return nil, err
		}
		out["Object"] = document(runtime.DeepCopyJSON(x.source.Object))
	}
	if !p.readsClusters {
		return out, nil
	}
	if x.clusters == nil || p.mutates {
		x.clusters = map[string]any{}
		for name, c := range map[string]*v1alpha1.Cluster{"Cluster": x.in.Cluster, "LocalCluster": x.in.LocalCluster} {
			if c == nil {
				return nil, fmt.Errorf("there is no Cluster object for .%s", name)
			}
			x.clusters[name] = clusterData(c)
		}
		if err := x.meter.tree(x.clusters); err != nil {
			return nil, err
		}
	}
	maps.Copy(out, x.clusters)
	if p.mutates {
		x.clusters = nil
	}
	return out, nil
}

// clusterData is a Cluster by the Go names of its fields (.Cluster.Spec.ClusterID), as plain values: methods of typed
// values can change them, and their cost is not spent. Templates do not see which Secret has the credential.
func clusterData(c *v1alpha1.Cluster) any {
	public := *c
	public.Spec.AuthInfo = v1alpha1.AuthInfo{}
	public.ManagedFields = nil
	out, _ := plain(reflect.ValueOf(&public)).(map[string]any)
	for _, name := range []string{"Name", "Namespace", "Labels", "Annotations", "UID"} {
		if v, ok := out[name]; ok {
			out["Get"+name] = v
		}
	}
	return out
}

// plain converts a Go value into maps, lists and scalars; a value that is not set is nil. The fields of an embedded struct
// are also fields of the struct around it.
func plain(v reflect.Value) any {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return nil
		}
		return plain(v.Elem())
	case reflect.Struct:
		if t, ok := reflect.TypeAssert[metav1.Time](v); ok {
			return t.UTC().Format(time.RFC3339) //nolint:forbidigo // a time that an object holds
		}
		return plainStruct(v)
	case reflect.Map:
		out := map[string]any{}
		for key, value := range v.Seq2() {
			out[key.String()] = plain(value)
		}
		return out
	case reflect.Slice:
		if bytes, ok := reflect.TypeAssert[[]byte](v); ok {
			return string(bytes)
		}
		out := make([]any, v.Len())
		for i := range out {
			out[i] = plain(v.Index(i))
		}
		return out
	case reflect.String:
		return v.String()
	case reflect.Int, reflect.Int32, reflect.Int64:
		return v.Int()
	case reflect.Bool:
		return v.Bool()
	default:
		return nil
	}
}

func plainStruct(v reflect.Value) map[string]any {
	out := map[string]any{}
	for i := range v.NumField() {
		f := v.Type().Field(i)
		value := plain(v.Field(i))
		if value == nil {
			continue
		}
		out[f.Name] = value
		if inner, ok := value.(map[string]any); ok && f.Anonymous {
			maps.Copy(out, inner)
		}
	}
	return out
}
