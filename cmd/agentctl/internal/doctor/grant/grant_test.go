// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package grant

import (
	"strings"
	"testing"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

const (
	roles = `{apiVersion: v1, kind: List, items: [` +
		`{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: roster-read-secrets, namespace: "shop"}, rules: [{apiGroups: [""], resources: [secrets], verbs: [get, list, watch]}]}, ` +
		`{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: roster-read-secrets, namespace: "shop"}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: roster-read-secrets}, subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: "system:serviceaccounts:cluster-registry-readers"}]}, ` +
		`{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: roster-write-secrets, namespace: "web"}, rules: [{apiGroups: [""], resources: [secrets], verbs: [get, create]}]}, ` +
		`{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: roster-write-secrets, namespace: "web"}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: roster-write-secrets}, subjects: [{kind: ServiceAccount, name: "cluster-registry-controller", namespace: "cluster-registry"}]}]}`
	wide = `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: roster-x, labels: {LABEL: "true"}}, rules: [{apiGroups: [""], resources: [KIND], verbs: [get, list, watch]}]}`
)

func TestCommand(t *testing.T) {
	clusterRole := func(label, kind string) string {
		return strings.NewReplacer("LABEL", label, "KIND", kind).Replace(wide)
	}
	for name, c := range map[string]struct {
		input string
		shown bool
	}{
		"Roles":                       {roles, true},
		"ConfigMaps of a source":      {clusterRole(v1alpha1.LabelReaderAggregated, "configmaps"), true},
		"Secrets here":                {clusterRole(v1alpha1.LabelControllerAggregated, "secrets"), true},
		"Secrets of a source":         {clusterRole(v1alpha1.LabelReaderAggregated, "secrets"), false},
		"Secrets among others":        {clusterRole(v1alpha1.LabelReaderAggregated, "configmaps,secrets"), false},
		"label of Kubernetes":         {clusterRole("rbac.authorization.k8s.io/aggregate-to-view", "configmaps"), false},
		"Role of a private namespace": {strings.ReplaceAll(roles, `"shop"`, `"shop-private"`), false},
		"binding in one":              {strings.Replace(roles, `"shop"}, roleRef`, `"shop-private"}, roleRef`, 1), false},
		"another group":               {strings.Replace(roles, `cluster-registry-readers`, `kube-system`, 1), false},
		"everybody":                   {strings.Replace(roles, `system:serviceaccounts:cluster-registry-readers`, `system:authenticated`, 1), false},
		"another kind":                {strings.Replace(roles, `resources: [secrets]`, `resources: [pods]`, 1), false},
		"no end":                      {strings.TrimSuffix(roles, "]}"), false},
		"another command":             {strings.Replace(roles, `"shop"`, `"shop"'; reboot; '`, 1), false},
	} {
		command := Command("cluster beta does not let this one; grant it there with: kubectl apply -f - <<< '" + c.input + "'")
		if want := "<<< '" + c.input + "'"; c.shown && command != want || !c.shown && command != "" {
			t.Errorf("%s: %q", name, command)
		}
	}
}
