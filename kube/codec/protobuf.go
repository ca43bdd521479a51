// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package codec

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

// Secrets and ConfigMaps, which are most of what is copied, are exchanged in Kubernetes' protobuf: it costs the API server
// and the agent less than JSON (docs/decisions/015). The generated types would bring every kind of Kubernetes into the
// program. So the few fields of these two kinds are read and written here, and apimachinery does what all kinds share,
// but for the envelope.
//
// The wire format is that of k8s.io/api/core/v1/generated.proto, in the envelope runtime.Unknown behind a prefix of four
// bytes. managedFields are dropped.

// protobufPrefix begins every object.
const protobufPrefix = "k8s\x00"

// errNotInProtobuf is returned for an object with fields that its kind does not have, or with values of another type. It
// is sent in JSON instead, so that the API server says what is wrong.
var errNotInProtobuf = errors.New("object cannot be encoded in protobuf")

// protobufInfo is the serializer of the two kinds. It sets unknown, unless that is nil, when it meets an unknown field.
func protobufInfo(unknown *atomic.Bool) runtime.SerializerInfo {
	serializer := protobufSerializer{unknown}
	return runtime.SerializerInfo{
		MediaType: runtime.ContentTypeProtobuf, MediaTypeType: "application", MediaTypeSubType: "vnd.kubernetes.protobuf",
		Serializer:       serializer,
		StreamSerializer: &runtime.StreamSerializerInfo{Serializer: protobufEventDecoder{serializer}, Framer: protobuf.LengthDelimitedFramer},
	}
}

// protobufSerializer decodes objects to the same result as the dynamic client does from JSON, and encodes them.
//
// An object may have fields that a newer Kubernetes has added, and a copy must not lack them. Then unknown is set, and
// everything is read in JSON from there on, see PreferProtobuf. It is an error for an event of a watch, which is decoded
// with into nil: the watch ends, and is opened again in JSON. The answer to a write is returned without those fields.
type protobufSerializer struct{ unknown *atomic.Bool }

// Identifier implements runtime.Encoder.
func (protobufSerializer) Identifier() runtime.Identifier { return "roster-protobuf" }

// Decode implements runtime.Decoder.
func (s protobufSerializer) Decode(data []byte, _ *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	rest, ok := bytes.CutPrefix(data, []byte(protobufPrefix))
	if !ok {
		return nil, nil, errors.New("decode object: not in Kubernetes' protobuf format")
	}
	gvk, raw, err := splitEnvelope(rest)
	if err != nil {
		return nil, nil, fmt.Errorf("decode object: %w", err)
	}
	obj, err := decodeProtobuf(gvk.Kind, raw, into)
	if err == nil && s.unknown != nil && hasUnknownFields(gvk.Kind, raw) {
		if s.unknown.Store(true); into == nil {
			err = errUnknownFields
		}
	}
	if err != nil {
		return nil, &gvk, fmt.Errorf("decode %.63q: %w", gvk.Kind, err)
	}
	return obj, &gvk, nil
}

func decodeProtobuf(kind string, raw []byte, into runtime.Object) (runtime.Object, error) {
	if kind == "Status" {
		if into != nil {
			return nil, fmt.Errorf("got a Status, expected a %T", into)
		}
		status := &metav1.Status{TypeMeta: metav1.TypeMeta{Kind: kind, APIVersion: "v1"}}
		return status, status.Unmarshal(raw)
	}
	if itemKind, isList := strings.CutSuffix(kind, kindListSuffix); isList {
		list, ok := into.(*unstructured.UnstructuredList)
		if into != nil && !ok {
			return nil, fmt.Errorf("got a list, expected a %T", into)
		}
		if list == nil {
			list = &unstructured.UnstructuredList{}
		}
		return list, decodeList(itemKind, raw, list)
	}
	out, ok := into.(*unstructured.Unstructured)
	if into != nil && !ok {
		return nil, fmt.Errorf("got an object, expected a %T", into)
	}
	content, err := decodeObject(kind, raw)
	if out == nil {
		out = &unstructured.Unstructured{}
	}
	out.Object = content
	return out, err
}

// maxItems bounds a list: an object of two encoded bytes takes some hundreds in memory.
const maxItems = 200_000

var errTooManyItems = errors.New("list of more than 200,000 objects")

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
			return errTooManyItems
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
		return nil, errors.New("kind is not one that is exchanged in protobuf")
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
			return addEntry(content, "data", value, stringOf)
		case field == fieldData:
			return addEntry(content, "data", value, encodeBase64)
		case field == configMapBinaryData && kind == kindConfigMap:
			return addEntry(content, "binaryData", value, encodeBase64)
		case field == secretType && kind == kindSecret && len(value) > 0:
			content["type"] = validUTF8(string(value))
		case field == secretImmutable && kind == kindSecret, field == configMapImmutable && kind == kindConfigMap:
			content["immutable"] = number != 0
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return content, nil
}

// encodeBase64 makes one copy where the library makes two: most of what is decoded passes through it.
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

// addEntry decodes one entry of a map and adds it to the field of that name.
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
	all[validUTF8(string(key))] = text(value)
	return err
}

// Encode implements runtime.Encoder. It returns errNotInProtobuf where obj can only be encoded in JSON.
func (protobufSerializer) Encode(obj runtime.Object, w io.Writer) error {
	buffer, _ := buffers.Get().(*[]byte)
	defer func() {
		if cap(*buffer) <= maxPooledBuffer {
			buffers.Put(buffer)
		}
	}()
	kind, raw, err := "DeleteOptions", (*buffer)[:0], error(nil)
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
	*buffer = raw
	if _, err := w.Write(appendEnvelope(make([]byte, 0, 64), kind, len(raw))); err != nil {
		return err
	}
	_, err = w.Write(raw)
	return err
}

// maxPooledBuffer is the size in bytes up to which a buffer is kept for the next object.
const maxPooledBuffer = 64 << 10

var buffers = sync.Pool{New: func() any { return new([]byte) }} //nolint:gochecknoglobals // a pool is shared by its nature

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
	meta, err := encodeMetadata(metadata)
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
			out, ok = appendEntries(out, fieldData, value, plainText())
		case name == "data":
			out, ok = appendEntries(out, fieldData, value, base64Text())
		case name == "binaryData" && kind == kindConfigMap:
			out, ok = appendEntries(out, configMapBinaryData, value, base64Text())
		case name == "type" && kind == kindSecret:
			out, ok = appendText(out, secretType, value)
		case name == "immutable" && kind == kindSecret:
			out, ok = appendBool(out, secretImmutable, value)
		case name == "immutable":
			out, ok = appendBool(out, configMapImmutable, value)
		default:
			ok = false
		}
		if !ok {
			return nil, errNotInProtobuf
		}
	}
	return out, nil
}

// protobufEventDecoder decodes a watch event, and leaves the object in it encoded. The result is valid until the next
// event is read. Of a deleted object it keeps only the metadata, so that what was in it is not kept in memory.
type protobufEventDecoder struct{ protobufSerializer }

// Decode implements runtime.Decoder.
func (protobufEventDecoder) Decode(data []byte, _ *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	event, ok := into.(*metav1.WatchEvent)
	if !ok {
		return nil, nil, fmt.Errorf("decode event: expected a %T", into)
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
		event.Object.Raw, err = withoutContent(event.Object.Raw)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("decode event: %w", err)
	}
	return event, &schema.GroupVersionKind{Version: "v1", Kind: "WatchEvent"}, nil
}
