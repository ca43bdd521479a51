// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package crdversion compares the versions of CRDs that their annotations say.
package crdversion

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// ErrSkipped is returned where a CRD of the cluster is so old that agents beside it would do harm to objects of
// the CRD that replaces it.
var ErrSkipped = errors.New("a version between the two was skipped")

// Replaces reports whether a CRD with the annotations want takes the place of the one with the annotations have,
// which is there: a newer one stays as it is, so that a program of an older version loses no fields. Errors:
// ErrSkipped.
func Replaces(have, want map[string]string) (bool, error) {
	was, is := Parse(have[v1alpha1.AnnotationSchemaVersion]), Parse(want[v1alpha1.AnnotationSchemaVersion])
	oldest := Parse(want[v1alpha1.AnnotationSchemaOldestAgent])
	if 0 < was && was < oldest {
		return false, fmt.Errorf("%w: an agent that runs beside the CRD of this cluster (schema %d) would do harm to objects of the new CRD (schema %d, for agents of schema %d and later): first upgrade to a version whose CRDs have schema %d, and let its agent become ready", ErrSkipped, was, is, oldest, oldest)
	}
	return was <= is, nil
}

// Parse parses a version. No version counts as 0, older than every other.
func Parse(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	return n
}
