// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"errors"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

var errUnknownFields = errors.New("it has fields of a newer Kubernetes, and is read again in JSON")

// The highest field numbers that are known of each message. A test compares them with the libraries.
const (
	secretLastField    = secretImmutable
	configMapLastField = configMapImmutable
	metaLastField      = metaManagedFields
)

// hasUnknownFields says whether an object, or one in a list, has fields of a newer Kubernetes.
func hasUnknownFields(kind string, raw []byte) (found bool) {
	one, isList := strings.CutSuffix(kind, kindListSuffix)
	last := secretLastField
	switch {
	case kind == kindConfigMap:
		last = configMapLastField
	case kind != kindSecret && !isList:
		return false
	}
	check := func(field protowire.Number, value []byte, _ uint64) error {
		switch {
		case isList && field == fieldItems:
			found = found || hasUnknownFields(one, value)
		case isList:
		case field == fieldMetadata:
			return eachField(value, func(field protowire.Number, _ []byte, _ uint64) error {
				found = found || field > metaLastField
				return nil
			})
		default:
			found = found || field > last
		}
		return nil
	}
	return eachField(raw, check) == nil && found
}
