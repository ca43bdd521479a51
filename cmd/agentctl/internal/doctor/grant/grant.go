// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package grant finds the command in the message of an agent that lacks a right, and says which right that is.
package grant

import (
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/roster-mesh/roster/kube"
)

// text is what the agent offers to paste, word for word. A message may repeat what another cluster
// says: anything else that looks like a command is not shown as one.
var text = regexp.MustCompile(`kubectl apply -f - (<<< '\{apiVersion: rbac\.authorization\.k8s\.io/v1, kind: ClusterRole, ` +
	`metadata: \{name: [a-z0-9.-]+, labels: \{[a-z0-9./-]+: "true"\}\}, ` +
	`rules: \[\{apiGroups: \["[a-z0-9.-]*"\], resources: \[[a-z0-9./, -]+\], verbs: \[[a-z, ]+\]\}\]\}')`)

// Command is the input of the kubectl apply that grants what a condition says is missing; "" for none.
func Command(message string) string {
	found := text.FindStringSubmatch(message)
	if found == nil {
		return ""
	}
	return found[1]
}

// Text is a right in words.
func Text(right kube.Attributes) string {
	verb, subresource, _ := strings.Cut(right.Verb, "/")
	resource, _ := meta.UnsafeGuessKindToResource(right.GVK)
	text := verb + " " + resource.GroupResource().String()
	if subresource != "" {
		text += "/" + subresource
	}
	if right.Namespace != "" {
		text += " in namespace " + right.Namespace
	}
	return text
}
