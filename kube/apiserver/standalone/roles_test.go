// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package standalone

import (
	"reflect"
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	rbacrest "k8s.io/kubernetes/pkg/registry/rbac/rest"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"
)

// What a later Kubernetes adds to its hook is not left out unnoticed. ClusterRolesToAggregate and ClusterRoleBindingsToSplit
// are for data of Kubernetes before 1.9 and 1.14, which no server of ours has.
func TestAllPolicyData(t *testing.T) {
	t.Parallel()
	known := []string{"ClusterRoles", "ClusterRoleBindings", "Roles", "RoleBindings", "ClusterRolesToAggregate", "ClusterRoleBindingsToSplit"}
	for field := range reflect.TypeFor[rbacrest.PolicyData]().Fields() {
		if !slices.Contains(known, field.Name) {
			t.Errorf("ensureRoles does nothing with %s", field.Name)
		}
	}
}

// The cluster gets what Kubernetes' own hook would give it, and a start that finds it there writes nothing.
func TestEnsureRoles(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset()
	if err := ensureRoles(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	want := map[string]int{
		"clusterroles":        len(bootstrappolicy.ClusterRoles()) + len(bootstrappolicy.ControllerRoles()),
		"clusterrolebindings": len(bootstrappolicy.ClusterRoleBindings()) + len(bootstrappolicy.ControllerRoleBindings()),
	}
	for _, in := range bootstrappolicy.NamespaceRoles() {
		want["roles"] += len(in)
	}
	for _, in := range bootstrappolicy.NamespaceRoleBindings() {
		want["rolebindings"] += len(in)
	}
	created := map[string]int{}
	for _, action := range client.Actions() {
		if action.GetVerb() == "create" {
			created[action.GetResource().Resource]++
		}
	}
	for resource, n := range want {
		if created[resource] != n {
			t.Errorf("%d %s were created, not %d", created[resource], resource, n)
		}
	}
	client.ClearActions()
	if err := ensureRoles(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	for _, action := range client.Actions() {
		if verb := action.GetVerb(); verb != "get" && verb != "list" {
			t.Errorf("the second start does %s %s", verb, action.GetResource().Resource)
		}
	}
}

// What is missing in a role is added, what somebody has added stays, and a protected one is left alone.
func TestEnsureRolesKeepsWhatOthersHaveMade(t *testing.T) {
	t.Parallel()
	mine := rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{"example.com"}, Resources: []string{"things"}}
	client := fake.NewClientset(
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "system:basic-user"}, Rules: []rbacv1.PolicyRule{mine}},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{
			Name: "system:discovery", Annotations: map[string]string{rbacv1.AutoUpdateAnnotationKey: "false"},
		}},
	)
	if err := ensureRoles(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	role := func(name string) *rbacv1.ClusterRole {
		r, err := client.RbacV1().ClusterRoles().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	basic := role("system:basic-user").Rules
	if !slices.ContainsFunc(basic, func(r rbacv1.PolicyRule) bool { return slices.Equal(r.Resources, mine.Resources) }) || len(basic) < 2 {
		t.Errorf("system:basic-user has the rules %v", basic)
	}
	if rules := role("system:discovery").Rules; len(rules) > 0 {
		t.Errorf("a protected role was changed: %v", rules)
	}
}
