// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The parts of protobuf messages that objects are made of.

// Fields of a message. Those of the two kinds differ from the third on.
const (
	fieldMetadata  protowire.Number = 1
	fieldData      protowire.Number = 2
	fieldItems     protowire.Number = 2 // of a list
	secretType     protowire.Number = 3
	secretFixed    protowire.Number = 5
	configBinary   protowire.Number = 3
	configFixed    protowire.Number = 4
	eventType      protowire.Number = 1 // of a WatchEvent
	eventObject    protowire.Number = 2
	extensionRaw   protowire.Number = 1 // of the object in it
	unknownType    protowire.Number = 1 // of the envelope
	unknownRaw     protowire.Number = 2
	typeVersion    protowire.Number = 1
	typeKind       protowire.Number = 2
	mapKey         protowire.Number = 1
	mapValue       protowire.Number = 2
	kindSecret                      = "Secret"
	kindConfigMap                   = "ConfigMap"
	kindListSuffix                  = "List"
)

// eachField goes through the fields of a message. A field has a value or a number.
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

// openUnknown takes apart a runtime.Unknown, whose own Unmarshal copies the object in it.
func openUnknown(data []byte) (gvk schema.GroupVersionKind, raw []byte, err error) {
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

func appendMessage(out []byte, field protowire.Number, m interface{ Marshal() ([]byte, error) }) ([]byte, error) {
	data, err := m.Marshal()
	if err != nil {
		return nil, err
	}
	return protowire.AppendBytes(protowire.AppendTag(out, field, protowire.BytesType), data), nil
}

func appendText(out []byte, field protowire.Number, value any) ([]byte, bool) {
	text, ok := value.(string)
	return protowire.AppendString(protowire.AppendTag(out, field, protowire.BytesType), text), ok
}

func appendBool(out []byte, field protowire.Number, value any) ([]byte, bool) {
	yes, ok := value.(bool)
	return protowire.AppendVarint(protowire.AppendTag(out, field, protowire.VarintType), protowire.EncodeBool(yes)), ok
}

// appendEntries appends a map, in the order of its keys: the same object is the same bytes.
func appendEntries(out []byte, field protowire.Number, value any, decode func(string) ([]byte, error)) ([]byte, bool) {
	all, ok := value.(map[string]any)
	if !ok {
		return nil, false
	}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		text, ok := all[key].(string)
		if !ok {
			return nil, false
		}
		data, err := decode(text)
		if err != nil {
			return nil, false
		}
		size := protowire.SizeTag(mapKey) + protowire.SizeBytes(len(key)) + protowire.SizeTag(mapValue) + protowire.SizeBytes(len(data))
		out = slices.Grow(out, protowire.SizeTag(field)+protowire.SizeBytes(size))
		out = protowire.AppendVarint(protowire.AppendTag(out, field, protowire.BytesType), uint64(size)) //nolint:gosec // Of what is in memory.
		out = protowire.AppendString(protowire.AppendTag(out, mapKey, protowire.BytesType), key)
		out = protowire.AppendBytes(protowire.AppendTag(out, mapValue, protowire.BytesType), data)
	}
	return out, true
}
