// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// MaxAdmittedBy is how many status.admittedBy lists: a path to this cluster is left if one of them has it.
const MaxAdmittedBy = 64

// AdmittedBy is how status.admittedBy names who admitted a cluster: a clusterID, and behind a slash the member that brought it,
// where the first one answers for it on that one's word.
func AdmittedBy(author, via string) string {
	if via == "" {
		return author
	}
	return author + "/" + via
}
