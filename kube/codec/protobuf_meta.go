// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// Field numbers of ObjectMeta, and of the Time in it.
const (
	metaName                protowire.Number = 1
	metaGenerateName        protowire.Number = 2
	metaNamespace           protowire.Number = 3
	metaUID                 protowire.Number = 5
	metaResourceVersion     protowire.Number = 6
	metaGeneration          protowire.Number = 7
	metaCreationTimestamp   protowire.Number = 8
	metaDeletionTimestamp   protowire.Number = 9
	metaDeletionGracePeriod protowire.Number = 10
	metaLabels              protowire.Number = 11
	metaAnnotations         protowire.Number = 12
	metaOwnerReferences     protowire.Number = 13
	metaFinalizers          protowire.Number = 14
	metaManagedFields       protowire.Number = 17
	timeSeconds             protowire.Number = 1
)

// decodeMetadata decodes an ObjectMeta to what it is in JSON, without managedFields, which are the largest part of it.
// Fields that few objects have are left to the library.
func decodeMetadata(raw []byte) (map[string]any, error) {
	out, rare := make(map[string]any, 8), false
	put := func(name string, value []byte) {
		if len(value) > 0 {
			out[name] = validUTF8(string(value))
		}
	}
	err := eachField(raw, func(field protowire.Number, value []byte, number uint64) error {
		switch field {
		case metaName:
			put("name", value)
		case metaGenerateName:
			put("generateName", value)
		case metaNamespace:
			put("namespace", value)
		case metaUID:
			put("uid", value)
		case metaResourceVersion:
			put("resourceVersion", value)
		case metaGeneration:
			if number != 0 {
				out["generation"] = int64(number) //nolint:gosec // protobuf encodes an int64 so
			}
		case metaCreationTimestamp:
			return eachField(value, func(field protowire.Number, _ []byte, seconds uint64) error {
				if field == timeSeconds && seconds != 0 {
					out["creationTimestamp"] = time.Unix(int64(seconds), 0).UTC().Format(time.RFC3339) //nolint:gosec // the same
				}
				return nil
			})
		case metaLabels:
			return addEntry(out, "labels", value, stringOf)
		case metaAnnotations:
			return addEntry(out, "annotations", value, stringOf)
		case metaDeletionTimestamp, metaDeletionGracePeriod, metaOwnerReferences, metaFinalizers:
			rare = true
		default:
		}
		return nil
	})
	if err != nil || !rare {
		return out, err
	}
	var m metav1.ObjectMeta
	if err := m.Unmarshal(raw); err != nil {
		return nil, err
	}
	m.ManagedFields = nil
	all, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&m)
	for _, name := range []string{"deletionTimestamp", "deletionGracePeriodSeconds", "ownerReferences", "finalizers"} {
		if value, ok := all[name]; ok {
			out[name] = value
		}
	}
	return out, err
}

func stringOf(v []byte) any { return validUTF8(string(v)) }

// validUTF8 replaces invalid bytes as encoding/json does.
func validUTF8(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// encodeMetadata is the reverse of decodeMetadata. A field that ObjectMeta does not have is an error.
func encodeMetadata(metadata map[string]any) (*metav1.ObjectMeta, error) {
	m, plain := &metav1.ObjectMeta{}, true
	for name, value := range metadata {
		text, isText := value.(string)
		known := isText
		switch name {
		case "name":
			m.Name = text
		case "generateName":
			m.GenerateName = text
		case "namespace":
			m.Namespace = text
		case "uid":
			m.UID = types.UID(text)
		case "resourceVersion":
			m.ResourceVersion = text
		case "labels":
			m.Labels, known = stringMap(value)
		case "annotations":
			m.Annotations, known = stringMap(value)
		case "generation":
			m.Generation, known = value.(int64)
		case "creationTimestamp":
			at, err := time.Parse(time.RFC3339, text)
			m.CreationTimestamp, known = metav1.NewTime(at), err == nil
		case "deletionTimestamp", "deletionGracePeriodSeconds", "ownerReferences", "finalizers", "managedFields", "selfLink":
			known = false
		default:
			return nil, errNotInProtobuf
		}
		plain = plain && known
	}
	if plain {
		return m, nil
	}
	m = &metav1.ObjectMeta{}
	return m, runtime.DefaultUnstructuredConverter.FromUnstructured(metadata, m)
}

func stringMap(value any) (map[string]string, bool) {
	all, ok := value.(map[string]any)
	if !ok {
		return nil, false
	}
	out := make(map[string]string, len(all))
	for name, text := range all {
		if out[name], ok = text.(string); !ok {
			return nil, false
		}
	}
	return out, true
}
