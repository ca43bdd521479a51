// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package grant finds the command in the message of an agent that lacks a right, and says which right that is.
package grant

import (
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// What the agent offers to paste, word for word: a ClusterRole, or for Secrets a Role and a RoleBinding in each namespace. A
// message may repeat what another cluster says: anything else that looks like a command is not shown as one.
const (
	clusterRole = `\{apiVersion: rbac\.authorization\.k8s\.io/v1, kind: ClusterRole, ` +
		`metadata: \{name: [a-z0-9.-]+, labels: \{([a-z0-9./-]+): "true"\}\}, ` +
		`rules: \[\{apiGroups: \["[a-z0-9.-]*"\], resources: \[([a-z0-9./, -]+)\], verbs: \[[a-z, ]+\]\}\]\}`
	role = `\{apiVersion: rbac\.authorization\.k8s\.io/v1, kind: Role, metadata: \{name: [a-z0-9.-]+, namespace: "[a-z0-9-]+"\}, ` +
		`rules: \[\{apiGroups: \[""\], resources: \[secrets\], verbs: \[[a-z, ]+\]\}\]\}`
	binding = `\{apiVersion: rbac\.authorization\.k8s\.io/v1, kind: RoleBinding, metadata: \{name: [a-z0-9.-]+, namespace: "[a-z0-9-]+"\}, ` +
		`roleRef: \{apiGroup: rbac\.authorization\.k8s\.io, kind: Role, name: [a-z0-9.-]+\}, subjects: \[(?:` + group + `|` + account + `)\]\}`
	group   = `\{apiGroup: rbac\.authorization\.k8s\.io, kind: Group, name: "system:serviceaccounts:[a-z0-9-]+-readers"\}`
	account = `\{kind: ServiceAccount, name: "[a-z0-9.-]+", namespace: "[a-z0-9-]+"\}`
	pair    = role + `, ` + binding
)

var text = regexp.MustCompile(`kubectl apply -f - (<<< '(?:` + clusterRole + `|\{apiVersion: v1, kind: List, items: \[` + pair + `(?:, ` + pair + `)*\]\})')`)

// Command is the input of the kubectl apply that grants what a condition says is missing; "" for none, and for what would
// let the other clusters read this one's private key, as agents once suggested.
func Command(message string) string {
	found := text.FindStringSubmatch(message)
	if found == nil {
		return ""
	}
	command, label, resources := found[1], found[2], strings.FieldsFunc(found[3], func(r rune) bool { return strings.ContainsRune(", ", r) })
	switch label {
	case "", v1alpha1.LabelControllerAggregated:
	case v1alpha1.LabelReaderAggregated:
		if slices.ContainsFunc(resources, func(name string) bool { return name == "secrets" || strings.HasPrefix(name, "secrets/") }) {
			return ""
		}
	default:
		return ""
	}
	if strings.Contains(command, v1alpha1.PrivateNamespace("")+`"}, r`) { // rules of a Role there, or roleRef
		return ""
	}
	return command
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
