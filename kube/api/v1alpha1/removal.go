// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
)

// RequestKey is the value of AnnotationLeave and AnnotationRemove: the public key as spec.mesh.publicKey shows it. A
// request is about this key, so that an old one that is applied again asks for nothing.
func RequestKey(publicKey []byte) string { return base64.StdEncoding.EncodeToString(publicKey) }

// RemovalRequest are the annotations that have the agent remove a cluster under a key, with those that it admitted, or without.
// They are set in one change: what an earlier request said, which came to nothing, does not count.
func RemovalRequest(key string, withAdmitted bool) map[string]string {
	what := RemoveKeepAdmitted
	if withAdmitted {
		what = RemoveWithAdmitted
	}
	return map[string]string{AnnotationRemove: key, AnnotationRemoveAdmitted: what}
}

// maxWaiting is how many members a removal's line names.
const maxWaiting = 50

const (
	removalConfirmed = "): confirmed"
	removalWaits     = "): waiting for "
	removalSeparator = "; "
)

// RemovalLine is what the message of ConditionRemovalsConfirmed says of one removal: which members have not
// confirmed it yet.
func RemovalLine(name, clusterID string, waiting []string) string {
	if len(waiting) == 0 {
		return name + " (" + clusterID + removalConfirmed
	}
	waiting = slices.Clone(waiting)
	slices.Sort(waiting)
	if more := len(waiting) - maxWaiting; more > 0 {
		waiting = append(waiting[:maxWaiting], fmt.Sprintf("%d more", more))
	}
	return name + " (" + clusterID + removalWaits + strings.Join(waiting, ", ")
}

// JoinRemovals makes the message of several lines.
func JoinRemovals(lines []string) string { return strings.Join(lines, removalSeparator) }

// RemovalWaits reads a message: who has not confirmed the removal of a cluster; found is false when the message
// does not mention it.
func RemovalWaits(message, clusterID string) (waiting []string, found bool) {
	for line := range strings.SplitSeq(message, removalSeparator) {
		if strings.HasSuffix(line, " ("+clusterID+removalConfirmed) {
			return nil, true
		}
		if _, names, ok := strings.Cut(line, " ("+clusterID+removalWaits); ok {
			return strings.Split(names, ", "), true
		}
	}
	return nil, false
}
