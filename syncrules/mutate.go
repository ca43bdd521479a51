// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package syncrules

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules/others"
)

// ErrSource is returned when a source object cannot be copied: it is not a valid object of the rule's kind, or the rule's
// mutations do not fit it.
var ErrSource = errors.New("unusable source object")

// changes are the mutations of labels, or of annotations: keys to add, and then keys to remove.
type changes struct {
	add    map[string]string
	remove []string
}

func (c *changes) apply(metadata map[string]any, field string) {
	if len(c.add)+len(c.remove) == 0 {
		return
	}
	to := child(metadata, field)
	for k, v := range c.add {
		to[k] = v
	}
	for _, k := range c.remove {
		delete(to, k)
	}
}

// Render returns the copy of a source object that the rules ask for. All rules must be about the kind of the source, match
// it, and have the same Target. Every clause that matches the source is applied: rules in the given order (by name),
// clauses in list order, so that the last one wins. The source is not changed, and the copy shares nothing with it.
//
// The metadata of the copy has name, namespace, labels and annotations only. The copy has the status of the source if a
// clause says so.
func Render(rules []*Rule, source *unstructured.Unstructured, in Input) (*unstructured.Unstructured, error) {
	if len(rules) == 0 || in.Owner == "" {
		return nil, fmt.Errorf("%w: no rule or no owner", ErrSource)
	}
	if source.GroupVersionKind() != rules[0].Kind() {
		return nil, fmt.Errorf("%w: it is a %s, not a %s", ErrSource, source.GroupVersionKind(), rules[0].Kind())
	}
	metadata, err := takeMetadata(source)
	if err != nil {
		return nil, err
	}
	content := map[string]any{"metadata": metadata}
	for k, v := range source.Object {
		switch k {
		case "metadata", "status", "apiVersion", "kind":
		default:
			content[k] = runtime.DeepCopyJSONValue(v)
		}
	}
	o, x := &subject{obj: source}, newRendering(source, in)
	from := PlaceOf(source)
	place := from
	if rules[0].moves {
		if place, err = rules[0].target(o, x); err != nil {
			return nil, err
		}
	}
	for _, r := range rules {
		if err := r.mutate(content, o, x); err != nil {
			return nil, err
		}
	}
	out := &unstructured.Unstructured{Object: content}
	place.applyTo(out)
	normalize(out)
	mark(child(content, "metadata"), in.Owner, rules, from, place)
	child(metadata, "annotations")[AnnotationShape] = shape(out)
	child(metadata, "annotations")[AnnotationSelections] = selections(rules)
	return out, nil
}

// mutate applies the clauses of a rule that match the source, except for kind, name and namespace: see target.
func (r *Rule) mutate(content map[string]any, o *subject, x *rendering) error {
	overridden := false
	for i := range r.clauses {
		c := &r.clauses[i]
		if !c.match(o) {
			continue
		}
		metadata := child(content, "metadata")
		c.annotations.apply(metadata, "annotations")
		c.labels.apply(metadata, "labels")
		if status, ok := x.source.Object["status"]; ok && c.syncStatus && content["status"] == nil {
			content["status"] = runtime.DeepCopyJSONValue(status)
		}
		for j := range c.overrides {
			overridden = true
			if err := c.overrides[j].apply(content, r, x); err != nil {
				return err
			}
		}
	}
	if overridden && !smaller(content, maxCopy) {
		return fmt.Errorf("%w: rule %s: %w", ErrOverride, r.name, errSize)
	}
	return nil
}

// applyTo gives an object the kind, name and namespace of the place.
func (p Place) applyTo(obj *unstructured.Unstructured) {
	obj.SetGroupVersionKind(p.GroupVersionKind)
	obj.SetName(p.Name)
	obj.SetNamespace(p.Namespace)
}

// Trim removes from a source object the fields that Render does not read, for callers that keep many of them. It must not
// be used for rules that ReadsContent.
func Trim(source *unstructured.Unstructured) {
	delete(source.Object, "status")
	if metadata, ok := source.Object["metadata"].(map[string]any); ok {
		for field := range metadata {
			switch field {
			case "name", "namespace", "labels", "annotations":
			default:
				delete(metadata, field)
			}
		}
	}
}

// takeMetadata returns the metadata that a copy takes over from its source.
func takeMetadata(source *unstructured.Unstructured) (map[string]any, error) {
	name, namespace := source.GetName(), source.GetNamespace()
	if name == "" {
		return nil, fmt.Errorf("%w: it has no name", ErrSource)
	}
	metadata := map[string]any{"name": name}
	if namespace != "" {
		metadata["namespace"] = namespace
	}
	from, _ := source.Object["metadata"].(map[string]any) // it exists: it has the name
	if from["namespace"] != nil && namespace == "" {
		return nil, fmt.Errorf("%w: metadata.namespace is not a string", ErrSource)
	}
	for _, field := range []string{"labels", "annotations"} {
		values, ok := from[field].(map[string]any)
		if !ok {
			if from[field] != nil {
				return nil, fmt.Errorf("%w: metadata.%s is not a map", ErrSource, field)
			}
			continue
		}
		taken := map[string]any{}
		for k, v := range values {
			text, ok := v.(string)
			if !ok {
				return nil, fmt.Errorf("%w: metadata.%s has a value that is not a string", ErrSource, field)
			}
			if Propagates(k, text) {
				taken[k] = text
			}
		}
		metadata[field] = taken
	}
	return metadata, nil
}

// Propagates says whether a label or annotation is copied with its object to other clusters. These are not: the marks of
// copies, those that are about one cluster only, and those by which a tool tracks its objects.
func Propagates(key, value string) bool {
	return !strings.HasPrefix(key, v1alpha1.LocalPrefix) && !isMark(key) && !others.Tracks(key, value) && !others.Controls(key)
}

// normalize changes a copy into the form in which an API server would return it.
func normalize(obj *unstructured.Unstructured) {
	kind := obj.GroupVersionKind().GroupKind()
	headless, _, _ := unstructured.NestedString(obj.Object, "spec", "clusterIP")
	if kind != (schema.GroupKind{Kind: "Service"}) || headless != "None" { // None is a choice, not an allocation
		for _, path := range others.Allocated(kind.Group, kind.Kind) {
			unstructured.RemoveNestedField(obj.Object, path...)
		}
	}
	if kind != (schema.GroupKind{Kind: "Secret"}) {
		return
	}
	// A server never returns stringData. If an object has it nevertheless, it takes precedence over data.
	plain, _ := obj.Object["stringData"].(map[string]any)
	for k, v := range plain {
		if text, ok := v.(string); ok {
			child(obj.Object, "data")[k] = base64.StdEncoding.EncodeToString([]byte(text))
		}
	}
	delete(obj.Object, "stringData")
}
