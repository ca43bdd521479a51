// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package rights

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// maxRoles is how many bytes of Roles and RoleBindings one command has: a condition says more than the command, and has
// problem.MaxMessage for all of it.
const maxRoles = 3000

// here ends the text about what the agent lacks in its own cluster. For Secrets it is a Role in each namespace: whoever may
// write Secrets everywhere can have a token of every account made. Only a rule about all namespaces gets the ClusterRole,
// since it can do with no less. That gives nothing to other clusters: only the agent here gets it, and it holds the private
// key of its cluster anyway.
func (l Lack) here(verbs []string, own string) string {
	if l.ofSecrets() && len(l.Namespaces) > 0 {
		namespace, name, known := account(l.User)
		if !known {
			namespace, name = cmp.Or(own, v1alpha1.DefaultNamespace), v1alpha1.DefaultServiceAccount
		}
		return l.roles("write", "here", verbs, accountSubject(namespace, name))
	}
	return " here; grant it with: " + l.clusterRole("write", v1alpha1.LabelControllerAggregated, verbs)
}

// there is the same of a peer. It is never about the Secrets of all namespaces: one of them holds the private key of the
// peer's cluster, and every member that could read it could act as that cluster.
func (l Lack) there(verbs []string, own string) string {
	switch {
	case !l.ofSecrets():
		return "; grant it there with: " + l.clusterRole("read", v1alpha1.LabelReaderAggregated, verbs)
	case len(l.Namespaces) == 0:
		return "; name namespaces in the rule (spec.rules[].match[].namespaces) and grant it there in each: the Secrets of all namespaces include that cluster's private key, see docs/rbac.md"
	}
	return l.roles("read", "there", verbs, readers(l.User, own))
}

func (l Lack) ofSecrets() bool { return l.Resource == schema.GroupResource{Resource: "secrets"} }

// clusterRole is the command that a person with the right to do so can paste.
func (l Lack) clusterRole(name, label string, verbs []string) string {
	for _, word := range []string{l.Resource.Resource, l.Resource.Group} {
		if word != "" && len(validation.IsDNS1123Subdomain(word)) > 0 {
			return "a ClusterRole with the label " + label + "=true" // the peer has it named so: no shell is to see that
		}
	}
	resources := l.Resource.Resource
	if i := slices.Index(verbs, UpdateStatus); i >= 0 {
		verbs, resources = slices.Delete(slices.Clone(verbs), i, i+1), resources+", "+resources+"/status"
	}
	return fmt.Sprintf(`kubectl apply -f - <<< '{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: roster-%s-%s, labels: {%s: "true"}}, rules: [{apiGroups: ["%s"], resources: [%s], verbs: [%s]}]}'`,
		name, l.Resource, label, l.Resource.Group, resources, strings.Join(verbs, ", "))
}

// roles is the same for Secrets of namespaces, a Role in each: of as many as there is room for, and never of one that may
// hold the private key of a cluster.
func (l Lack) roles(name, place string, verbs []string, subject string) string {
	verbs = slices.DeleteFunc(slices.Clone(verbs), func(verb string) bool { return verb == UpdateStatus }) // Secrets have none
	var items []string
	room := maxRoles
	for _, namespace := range l.Namespaces {
		if strings.HasSuffix(namespace, v1alpha1.PrivateNamespace("")) || len(validation.IsDNS1123Label(namespace)) > 0 {
			continue
		}
		item := fmt.Sprintf(`{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: roster-%[1]s-secrets, namespace: "%[2]s"}, rules: [{apiGroups: [""], resources: [secrets], verbs: [%[3]s]}]}, `+
			`{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: roster-%[1]s-secrets, namespace: "%[2]s"}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: roster-%[1]s-secrets}, subjects: [%[4]s]}`,
			name, namespace, strings.Join(verbs, ", "), subject)
		if room -= len(item); room < 0 {
			break
		}
		items = append(items, item)
	}
	switch {
	case len(items) == 0:
		return "; no right is suggested where the private key of a cluster may be, see docs/rbac.md"
	case len(items) < len(l.Namespaces):
		place += fmt.Sprintf(" in %d of the %d namespaces", len(items), len(l.Namespaces))
	}
	return "; grant it " + place + " with: kubectl apply -f - <<< '{apiVersion: v1, kind: List, items: [" + strings.Join(items, ", ") + "]}'"
}

// readers is who reads at a peer: all accounts of the readers' namespace there, as a peer that renews a credential may use
// another one. A user that is no account of Roster's chart, such as that of the existing controller, is meant itself.
func readers(user, own string) string {
	namespace, name, known := account(user)
	for _, suffix := range []string{v1alpha1.ReadersNamespace(""), v1alpha1.PrivateNamespace("")} {
		if of, ok := strings.CutSuffix(namespace, suffix); ok {
			own, known = of, false
		}
	}
	if known {
		return accountSubject(namespace, name)
	}
	return fmt.Sprintf(`{apiGroup: rbac.authorization.k8s.io, kind: Group, name: "%s"}`, v1alpha1.ReadersGroup(cmp.Or(own, v1alpha1.DefaultNamespace)))
}

func accountSubject(namespace, name string) string {
	return fmt.Sprintf(`{kind: ServiceAccount, name: "%s", namespace: "%s"}`, name, namespace)
}

// account takes the name of a ServiceAccount's user apart. A peer says it: no shell is to see anything else.
func account(user string) (namespace, name string, known bool) {
	rest, ok := strings.CutPrefix(user, "system:serviceaccount:")
	namespace, name, _ = strings.Cut(rest, ":")
	if !ok || len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return "", "", false
	}
	return namespace, name, true
}

// Hint says what to add for a kind while no review has said what is missing, and label is that of its ClusterRole.
func Hint(gvk schema.GroupVersionKind, place, label string) string {
	if gvk.Group == "" && gvk.Kind == "Secret" {
		return "add a Role and a RoleBinding for it " + place + " in each namespace that the rule names, see docs/rbac.md"
	}
	return "add a ClusterRole for it " + place + " with the label " + label + "=true"
}
