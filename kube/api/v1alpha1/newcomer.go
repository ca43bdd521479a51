// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
)

// Newcomer is a cluster that waits to be admitted, as ConditionClustersAdmitted lists it.
//
// +k8s:deepcopy-gen=false
type Newcomer struct {
	Name        string // of the cluster that was removed; the newcomer has taken no name yet
	ClusterID   string
	Fingerprint string // of its public key (KeyFingerprint)
	Introducer  string // the name of the member that brought it
}

// KeyFingerprint is what people compare a public key by: the first half of its SHA-256.
func KeyFingerprint(publicKey []byte) string {
	sum := sha256.Sum256(publicKey)
	return hex.EncodeToString(sum[:16])
}

// NewcomerLine is what the message of ConditionClustersAdmitted says of one newcomer.
func NewcomerLine(n Newcomer) string {
	return n.Name + " (clusterID " + n.ClusterID + ", key " + n.Fingerprint + ", introduced by " + n.Introducer + ")"
}

// ParseNewcomers reads the newcomers from the message of ConditionClustersAdmitted.
func ParseNewcomers(message string) (all []Newcomer) {
	line := regexp.MustCompile(`(\S+) \(clusterID (\S+), key ([0-9a-f]{32}), introduced by (\S+)\)`)
	for _, m := range line.FindAllStringSubmatch(message, -1) {
		all = append(all, Newcomer{m[1], m[2], m[3], m[4]})
	}
	return all
}

const approvalSeparator = ","

// Approval is how AnnotationApprove names one newcomer.
func Approval(clusterID, fingerprint string) string { return clusterID + "/" + fingerprint }

// Approvals are the parts of the value of AnnotationApprove.
func Approvals(value string) (all []string) {
	for part := range strings.SplitSeq(value, approvalSeparator) {
		if part = strings.TrimSpace(part); part != "" {
			all = append(all, part)
		}
	}
	return all
}

// JoinApprovals is the value of AnnotationApprove.
func JoinApprovals(approvals []string) string { return strings.Join(approvals, approvalSeparator) }
