// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// jsonObjectEncoder encodes an object in one pass; the library's own encodes it and then goes over the result again.
type jsonObjectEncoder struct{ runtime.Encoder }

// Encode implements runtime.Encoder.
func (e jsonObjectEncoder) Encode(obj runtime.Object, w io.Writer) error {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return e.Encoder.Encode(obj, w)
	}
	return json.NewEncoder(w).Encode(u.Object)
}

// jsonObjectDecoder decodes one object.
type jsonObjectDecoder struct{ runtime.Serializer }

// Decode implements runtime.Decoder.
func (d jsonObjectDecoder) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	out, ok := into.(*unstructured.Unstructured)
	if into != nil && !ok {
		return d.Serializer.Decode(data, defaults, into)
	}
	content := map[string]any{}
	if err := utiljson.Unmarshal(data, &content); err != nil {
		return nil, nil, fmt.Errorf("decode object: %w", err)
	}
	decoded := unstructured.Unstructured{Object: content}
	gvk := decoded.GroupVersionKind()
	_, isList := content["items"].([]any)
	if gvk.Kind == "" || gvk.Version == "" || gvk.Group == "" && gvk.Kind == "Status" || isList && into == nil {
		return d.Serializer.Decode(data, defaults, into)
	}
	if out == nil {
		out = &unstructured.Unstructured{}
	}
	out.Object = content
	return out, &gvk, nil
}

// jsonEventDecoder decodes a watch event, and leaves the object in it encoded. The result is valid until the next event
// is read; client-go decodes the object before that.
type jsonEventDecoder struct{ runtime.Serializer }

// Decode implements runtime.Decoder.
func (d jsonEventDecoder) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	event, ok := into.(*metav1.WatchEvent)
	if !ok {
		return d.Serializer.Decode(data, defaults, into)
	}
	eventType, object, ok := splitEvent(data)
	if !ok {
		return d.Serializer.Decode(data, defaults, into)
	}
	event.Type, event.Object.Raw = eventType, object
	return event, &schema.GroupVersionKind{Version: "v1", Kind: "WatchEvent"}, nil
}

// splitEvent returns the type of an event and its object, still encoded. It knows only the one form in which API servers
// send events; ok is false for any other.
func splitEvent(data []byte) (eventType string, object []byte, ok bool) {
	rest, hasType := bytes.CutPrefix(bytes.TrimSpace(data), []byte(`{"type":"`))
	name, rest, hasObject := bytes.Cut(rest, []byte(`","object":`))
	object, hasEnd := bytes.CutSuffix(rest, []byte(`}`))
	if !hasType || !hasObject || !hasEnd || bytes.ContainsAny(name, `"\`) {
		return "", nil, false
	}
	var s scanner
	if end, done, err := s.scan(object); err != nil || !done || end != len(object) {
		return "", nil, false
	}
	return string(name), object, true
}
