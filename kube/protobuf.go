// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/watch"
)

// Secrets and ConfigMaps, which are most of what is copied, travel in Kubernetes' protobuf: it costs the API server
// and the agent less than JSON (decision 015). The generated types would bring every kind of Kubernetes into the
// program; of these two the few fields are read and written here, and what all kinds share, but for the envelope, by
// apimachinery.
//
// The wire format is that of k8s.io/api/core/v1/generated.proto, in the envelope runtime.Unknown behind four bytes.
// An object comes out of it without managedFields.

// protobufPrefix begins every object.
const protobufPrefix = "k8s\x00"

// protobufFirst is what is asked for where an API server may answer in protobuf.
const protobufFirst = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON

// errNotInProtobuf: the object has fields that its kind has not, or values of another type. In JSON the API server
// gets to say so.
var errNotInProtobuf = errors.New("not an object that protobuf can carry")

// inProtobuf says whether the objects of a resource are exchanged in protobuf.
func inProtobuf(r schema.GroupVersionResource) bool {
	return r.Group == "" && r.Version == "v1" && (r.Resource == "secrets" || r.Resource == "configmaps")
}

// protobufInfo is the serializer of the two kinds. later is set when it meets what it cannot read; it may be nil.
func protobufInfo(later *atomic.Bool) runtime.SerializerInfo {
	codec := protobufCodec{later}
	return runtime.SerializerInfo{
		MediaType: runtime.ContentTypeProtobuf, MediaTypeType: "application", MediaTypeSubType: "vnd.kubernetes.protobuf",
		Serializer:       codec,
		StreamSerializer: &runtime.StreamSerializerInfo{Serializer: protobufEvents{codec}, Framer: protobuf.LengthDelimitedFramer},
	}
}

// protobufCodec decodes objects as the dynamic client does those in JSON, and encodes them.
//
// What a later Kubernetes has added to a kind has no name here, and copies must not lack it: then later is set, and all
// is read in JSON from there on, see preferProtobuf. An event of a watch, which is decoded into nothing, is an error;
// what answers a write is taken without that.
type protobufCodec struct{ later *atomic.Bool }

// Identifier implements runtime.Encoder.
func (protobufCodec) Identifier() runtime.Identifier { return "roster-protobuf" }

// Decode implements runtime.Decoder.
func (c protobufCodec) Decode(data []byte, _ *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	rest, ok := bytes.CutPrefix(data, []byte(protobufPrefix))
	if !ok {
		return nil, nil, errors.New("decode object: not Kubernetes' protobuf")
	}
	gvk, raw, err := openUnknown(rest)
	if err != nil {
		return nil, nil, fmt.Errorf("decode object: %w", err)
	}
	obj, err := decodeProtobuf(gvk.Kind, raw, into)
	if err == nil && c.later != nil && hasLater(gvk.Kind, raw) {
		if c.later.Store(true); into == nil {
			err = errLater
		}
	}
	if err != nil {
		return nil, &gvk, fmt.Errorf("decode %s: %w", oneLine(gvk.Kind), err)
	}
	return obj, &gvk, nil
}

func decodeProtobuf(kind string, raw []byte, into runtime.Object) (runtime.Object, error) {
	if kind == "Status" {
		if into != nil {
			return nil, fmt.Errorf("the answer is a Status, not a %T", into)
		}
		status := &metav1.Status{TypeMeta: metav1.TypeMeta{Kind: kind, APIVersion: "v1"}}
		return status, status.Unmarshal(raw)
	}
	if one, isList := strings.CutSuffix(kind, kindListSuffix); isList {
		list, ok := into.(*unstructured.UnstructuredList)
		if into != nil && !ok {
			return nil, fmt.Errorf("the answer is a list, not a %T", into)
		}
		if list == nil {
			list = &unstructured.UnstructuredList{}
		}
		return list, decodeList(one, raw, list)
	}
	out, ok := into.(*unstructured.Unstructured)
	if into != nil && !ok {
		return nil, fmt.Errorf("the answer is an object, not a %T", into)
	}
	content, err := decodeObject(kind, raw)
	if out == nil {
		out = &unstructured.Unstructured{}
	}
	out.Object = content
	return out, err
}

// maxItems bounds a list: an object of two bytes is decoded to some hundreds.
const maxItems = 200_000

var errTooMany = errors.New("a list of more than 200,000 objects")

func decodeList(kind string, raw []byte, list *unstructured.UnstructuredList) error {
	var meta metav1.ListMeta
	err := eachField(raw, func(field protowire.Number, value []byte, _ uint64) error {
		if field == fieldMetadata {
			return meta.Unmarshal(value)
		}
		if field != fieldItems {
			return nil
		}
		if len(list.Items) == maxItems {
			return errTooMany
		}
		content, err := decodeObject(kind, value)
		list.Items = append(list.Items, unstructured.Unstructured{Object: content})
		return err
	})
	if err != nil {
		return err
	}
	metadata, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&meta)
	list.Object = map[string]any{"apiVersion": "v1", "kind": kind + kindListSuffix, "metadata": metadata}
	return err
}

func decodeObject(kind string, raw []byte) (map[string]any, error) {
	if kind != kindSecret && kind != kindConfigMap {
		return nil, errors.New("nobody asked for that kind in protobuf")
	}
	content := map[string]any{"apiVersion": "v1", "kind": kind}
	content["metadata"] = map[string]any{}
	err := eachField(raw, func(field protowire.Number, value []byte, number uint64) error {
		switch {
		case field == fieldMetadata:
			metadata, err := decodeMetadata(value)
			content["metadata"] = metadata
			return err
		case field == fieldData && kind == kindConfigMap:
			return addEntry(content, "data", value, textOf)
		case field == fieldData:
			return addEntry(content, "data", value, encodeBase64)
		case field == configBinary && kind == kindConfigMap:
			return addEntry(content, "binaryData", value, encodeBase64)
		case field == secretType && kind == kindSecret && len(value) > 0:
			content["type"] = validText(string(value))
		case field == secretFixed && kind == kindSecret, field == configFixed && kind == kindConfigMap:
			content["immutable"] = number != 0
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return content, nil
}

// encodeBase64 makes one copy where the library makes two: most of what is decoded is this.
func encodeBase64(v []byte) any {
	const chunk = 768 // a multiple of three has no padding
	var out strings.Builder
	out.Grow(base64.StdEncoding.EncodedLen(len(v)))
	var text [chunk / 3 * 4]byte
	for part := range slices.Chunk(v, chunk) {
		n := base64.StdEncoding.EncodedLen(len(part))
		base64.StdEncoding.Encode(text[:n], part)
		out.Write(text[:n])
	}
	return out.String()
}

// addEntry adds one entry of a map to the field of that name.
func addEntry(content map[string]any, name string, entry []byte, text func([]byte) any) error {
	var key, value []byte
	err := eachField(entry, func(field protowire.Number, v []byte, _ uint64) error {
		if field == mapKey {
			key = v
		}
		if field == mapValue {
			value = v
		}
		return nil
	})
	all, ok := content[name].(map[string]any)
	if !ok {
		all = map[string]any{}
		content[name] = all
	}
	all[validText(string(key))] = text(value)
	return err
}

// Encode implements runtime.Encoder. The error is errNotInProtobuf where JSON would do.
func (protobufCodec) Encode(obj runtime.Object, w io.Writer) error {
	scratch, _ := encoders.Get().(*[]byte)
	defer func() {
		if cap(*scratch) <= maxScratch {
			encoders.Put(scratch)
		}
	}()
	kind, raw, err := "DeleteOptions", (*scratch)[:0], error(nil)
	switch o := obj.(type) {
	case *unstructured.Unstructured:
		kind = o.GetKind()
		raw, err = encodeObject(raw, o)
	case *metav1.DeleteOptions:
		raw, err = appendEncoded(raw, o)
	default:
		err = errNotInProtobuf
	}
	if err != nil {
		return err
	}
	*scratch = raw
	if _, err := w.Write(appendEnvelope(make([]byte, 0, 64), kind, len(raw))); err != nil {
		return err
	}
	_, err = w.Write(raw)
	return err
}

// maxScratch is how large a buffer is kept for the next object; encoders has them.
const maxScratch = 64 << 10

var encoders = sync.Pool{New: func() any { return new([]byte) }} //nolint:gochecknoglobals // a pool is shared by its nature

// encodeObject appends an object of the two kinds.
func encodeObject(out []byte, u *unstructured.Unstructured) ([]byte, error) {
	kind := u.GetKind()
	if u.GetAPIVersion() != "v1" || kind != kindSecret && kind != kindConfigMap {
		return nil, errNotInProtobuf
	}
	metadata, ok := u.Object["metadata"].(map[string]any)
	if !ok {
		return nil, errNotInProtobuf
	}
	meta, err := metaOf(metadata)
	if err != nil {
		return nil, errNotInProtobuf
	}
	out, err = appendMessage(out, fieldMetadata, meta)
	if err != nil {
		return nil, fmt.Errorf("encode metadata: %w", err)
	}
	for name, value := range u.Object {
		ok := true
		switch {
		case name == "apiVersion" || name == "kind" || name == "metadata" || value == nil:
		case name == "data" && kind == kindConfigMap:
			out, ok = appendEntries(out, fieldData, value, plain())
		case name == "data":
			out, ok = appendEntries(out, fieldData, value, inBase64())
		case name == "binaryData" && kind == kindConfigMap:
			out, ok = appendEntries(out, configBinary, value, inBase64())
		case name == "type" && kind == kindSecret:
			out, ok = appendText(out, secretType, value)
		case name == "immutable" && kind == kindSecret:
			out, ok = appendBool(out, secretFixed, value)
		case name == "immutable":
			out, ok = appendBool(out, configFixed, value)
		default:
			ok = false
		}
		if !ok {
			return nil, errNotInProtobuf
		}
	}
	return out, nil
}

// protobufEvents takes the envelope off the events of a watch. What it returns is valid until the next one is read. Of
// an object that was deleted there is the metadata alone: what was in it is nobody's business any more.
type protobufEvents struct{ protobufCodec }

// Decode implements runtime.Decoder.
func (protobufEvents) Decode(data []byte, _ *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	event, ok := into.(*metav1.WatchEvent)
	if !ok {
		return nil, nil, fmt.Errorf("decode event: into a %T", into)
	}
	*event = metav1.WatchEvent{}
	err := eachField(data, func(field protowire.Number, value []byte, _ uint64) error {
		if field == eventType {
			event.Type = string(value)
		}
		if field != eventObject {
			return nil
		}
		return eachField(value, func(field protowire.Number, raw []byte, _ uint64) error {
			if field == extensionRaw {
				event.Object.Raw = raw
			}
			return nil
		})
	})
	if err == nil && event.Type == string(watch.Deleted) {
		event.Object.Raw, err = metadataOf(event.Object.Raw)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("decode event: %w", err)
	}
	return event, &schema.GroupVersionKind{Version: "v1", Kind: "WatchEvent"}, nil
}
