// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"errors"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

var errLater = errors.New("it has fields of a later Kubernetes, and is read again in JSON")

// The last fields that the two kinds have, and metadata has.
const (
	secretLast = secretFixed
	configLast = configFixed
	metaLast   = metaManagedFields
)

// hasLater says that an object, or one of a list, has fields that are not known here.
func hasLater(kind string, raw []byte) (later bool) {
	one, isList := strings.CutSuffix(kind, kindListSuffix)
	last := secretLast
	switch {
	case kind == kindConfigMap:
		last = configLast
	case kind != kindSecret && !isList:
		return false
	}
	look := func(field protowire.Number, value []byte, _ uint64) error {
		switch {
		case isList && field == fieldItems:
			later = later || hasLater(one, value)
		case isList:
		case field == fieldMetadata:
			return eachField(value, func(field protowire.Number, _ []byte, _ uint64) error {
				later = later || field > metaLast
				return nil
			})
		default:
			later = later || field > last
		}
		return nil
	}
	return eachField(raw, look) == nil && later
}
