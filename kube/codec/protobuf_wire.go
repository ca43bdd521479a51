// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"bytes"
	"encoding/base64"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The parts of protobuf messages that objects are made of.

// Field numbers. Those of Secret and ConfigMap differ from 3 on.
const (
	fieldMetadata       protowire.Number = 1
	fieldData           protowire.Number = 2
	fieldItems          protowire.Number = 2 // of a list
	secretType          protowire.Number = 3
	secretImmutable     protowire.Number = 5
	configMapBinaryData protowire.Number = 3
	configMapImmutable  protowire.Number = 4
	eventType           protowire.Number = 1 // of a WatchEvent
	eventObject         protowire.Number = 2
	extensionRaw        protowire.Number = 1 // of the object in it
	unknownType         protowire.Number = 1 // of the envelope
	unknownRaw          protowire.Number = 2
	typeVersion         protowire.Number = 1
	typeKind            protowire.Number = 2
	mapKey              protowire.Number = 1
	mapValue            protowire.Number = 2
	kindSecret                           = "Secret"
	kindConfigMap                        = "ConfigMap"
	kindListSuffix                       = "List"
)

// eachField calls take for each field of a message, with its bytes or its number.
func eachField(message []byte, take func(field protowire.Number, value []byte, number uint64) error) error {
	for len(message) > 0 {
		field, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return protowire.ParseError(n)
		}
		message = message[n:]
		var value []byte
		var number uint64
		switch kind {
		case protowire.BytesType:
			value, n = protowire.ConsumeBytes(message)
		case protowire.VarintType:
			number, n = protowire.ConsumeVarint(message)
		default:
			n = protowire.ConsumeFieldValue(field, kind, message)
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		message = message[n:]
		if kind != protowire.BytesType && kind != protowire.VarintType {
			continue
		}
		if err := take(field, value, number); err != nil {
			return err
		}
	}
	return nil
}

// splitEnvelope returns the kind and the object of a runtime.Unknown, whose own Unmarshal copies the object.
func splitEnvelope(data []byte) (gvk schema.GroupVersionKind, raw []byte, err error) {
	var apiVersion, kind string
	err = eachField(data, func(field protowire.Number, value []byte, _ uint64) error {
		switch field {
		case unknownRaw:
			raw = value
		case unknownType:
			return eachField(value, func(field protowire.Number, value []byte, _ uint64) error {
				switch field {
				case typeVersion:
					apiVersion = string(value)
				case typeKind:
					kind = string(value)
				default:
				}
				return nil
			})
		default:
		}
		return nil
	})
	return schema.FromAPIVersionAndKind(apiVersion, kind), raw, err
}

// appendEnvelope appends what comes before an object of size bytes.
func appendEnvelope(out []byte, kind string, size int) []byte {
	const version = "v1"
	typeSize := protowire.SizeTag(typeVersion) + protowire.SizeBytes(len(version)) + protowire.SizeTag(typeKind) + protowire.SizeBytes(len(kind))
	out = append(out, protobufPrefix...)
	out = protowire.AppendVarint(protowire.AppendTag(out, unknownType, protowire.BytesType), uint64(typeSize)) //nolint:gosec // two short strings
	out = protowire.AppendString(protowire.AppendTag(out, typeVersion, protowire.BytesType), version)
	out = protowire.AppendString(protowire.AppendTag(out, typeKind, protowire.BytesType), kind)
	return protowire.AppendVarint(protowire.AppendTag(out, unknownRaw, protowire.BytesType), uint64(size)) //nolint:gosec // a size in memory
}

// withoutContent returns an encoded object of the two kinds with nothing but its metadata.
func withoutContent(object []byte) ([]byte, error) {
	rest, ok := bytes.CutPrefix(object, []byte(protobufPrefix))
	if !ok {
		return object, nil // the decoder returns the error
	}
	gvk, raw, err := splitEnvelope(rest)
	if err != nil || gvk.Kind != kindSecret && gvk.Kind != kindConfigMap {
		return object, err
	}
	var metadata []byte
	err = eachField(raw, func(field protowire.Number, value []byte, _ uint64) error {
		if field == fieldMetadata {
			metadata = value
		}
		return nil
	})
	size := protowire.SizeTag(fieldMetadata) + protowire.SizeBytes(len(metadata))
	out := appendEnvelope(make([]byte, 0, 64+size), gvk.Kind, size)
	return protowire.AppendBytes(protowire.AppendTag(out, fieldMetadata, protowire.BytesType), metadata), err
}

// encodable is met by the generated messages of apimachinery.
type encodable interface {
	Size() int
	MarshalToSizedBuffer(to []byte) (int, error)
}

func appendEncoded(out []byte, m encodable) ([]byte, error) {
	start, size := len(out), m.Size()
	out = slices.Grow(out, size)[:start+size]
	_, err := m.MarshalToSizedBuffer(out[start:])
	return out, err
}

func appendMessage(out []byte, field protowire.Number, m encodable) ([]byte, error) {
	out = protowire.AppendTag(out, field, protowire.BytesType)
	return appendEncoded(protowire.AppendVarint(out, uint64(m.Size())), m) //nolint:gosec // a size in memory
}

func appendText(out []byte, field protowire.Number, value any) ([]byte, bool) {
	text, ok := value.(string)
	return protowire.AppendString(protowire.AppendTag(out, field, protowire.BytesType), text), ok
}

func appendBool(out []byte, field protowire.Number, value any) ([]byte, bool) {
	yes, ok := value.(bool)
	return protowire.AppendVarint(protowire.AppendTag(out, field, protowire.VarintType), protowire.EncodeBool(yes)), ok
}

// textEncoding is how the values of a map are encoded in JSON: as they are, or in base64.
type textEncoding struct {
	size   func(text string) int
	append func(out []byte, text string) ([]byte, error)
}

func plainText() textEncoding {
	return textEncoding{
		func(text string) int { return len(text) },
		func(out []byte, text string) ([]byte, error) { return append(out, text...), nil },
	}
}

func base64Text() textEncoding {
	return textEncoding{
		func(text string) int { return base64.RawStdEncoding.DecodedLen(len(strings.TrimRight(text, "="))) },
		func(out []byte, text string) ([]byte, error) {
			return base64.StdEncoding.AppendDecode(out, []byte(text))
		},
	}
}

// appendEntries appends a map in the order of its keys, so that equal objects have equal bytes. It returns false where
// protobuf cannot hold the map.
func appendEntries(out []byte, field protowire.Number, value any, encoding textEncoding) ([]byte, bool) {
	all, ok := value.(map[string]any)
	if !ok {
		return nil, false
	}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		text, ok := all[key].(string)
		if !ok {
			return nil, false
		}
		data := encoding.size(text)
		size := protowire.SizeTag(mapKey) + protowire.SizeBytes(len(key)) + protowire.SizeTag(mapValue) + protowire.SizeBytes(data)
		out = slices.Grow(out, protowire.SizeTag(field)+protowire.SizeBytes(size))
		out = protowire.AppendVarint(protowire.AppendTag(out, field, protowire.BytesType), uint64(size)) //nolint:gosec // a size in memory
		out = protowire.AppendString(protowire.AppendTag(out, mapKey, protowire.BytesType), key)
		out = protowire.AppendVarint(protowire.AppendTag(out, mapValue, protowire.BytesType), uint64(data)) //nolint:gosec // the same
		start := len(out)
		var err error
		if out, err = encoding.append(out, text); err != nil || len(out) != start+data {
			return nil, false // not base64, or base64 with line breaks, which the API server takes in JSON
		}
	}
	return out, true
}
