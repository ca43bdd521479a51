// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"regexp"
)

// grantText is what the agent offers to paste, word for word. A message may repeat what another cluster
// says: anything else that looks like a command is not shown as one.
var grantText = regexp.MustCompile(`kubectl apply -f - (<<< '\{apiVersion: rbac\.authorization\.k8s\.io/v1, kind: ClusterRole, ` +
	`metadata: \{name: [a-z0-9.-]+, labels: \{[a-z0-9./-]+: "true"\}\}, ` +
	`rules: \[\{apiGroups: \["[a-z0-9.-]*"\], resources: \[[a-z0-9./, -]+\], verbs: \[[a-z, ]+\]\}\]\}')`)

// grantCommand is the input of the kubectl apply that grants what a condition says is missing; "" for none.
func grantCommand(message string) string {
	found := grantText.FindStringSubmatch(message)
	if found == nil {
		return ""
	}
	return found[1]
}
