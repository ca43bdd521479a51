// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"errors"
	"fmt"
	"strconv"
)

// ErrSkippedVersion is returned where a CRD of the cluster is so old that agents beside it would do harm to objects of
// the CRD that replaces it.
var ErrSkippedVersion = errors.New("a version between the two was skipped")

// ReplacesCRD reports whether a CRD with the annotations want takes the place of the one with the annotations have,
// which is there: a newer one stays as it is, so that a program of an older version loses no fields. Errors:
// ErrSkippedVersion.
func ReplacesCRD(have, want map[string]string) (bool, error) {
	was, is := ParseSchemaVersion(have[AnnotationSchemaVersion]), ParseSchemaVersion(want[AnnotationSchemaVersion])
	oldest := ParseSchemaVersion(want[AnnotationSchemaOldestAgent])
	if 0 < was && was < oldest {
		return false, fmt.Errorf("%w: an agent that runs beside the CRD of this cluster (schema %d) would do harm to objects of the new CRD (schema %d, for agents of schema %d and later): first upgrade to a version whose CRDs have schema %d, and let its agent become ready", ErrSkippedVersion, was, is, oldest, oldest)
	}
	return was <= is, nil
}

// ParseSchemaVersion parses a version. No version counts as 0, older than every other.
func ParseSchemaVersion(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	return n
}
