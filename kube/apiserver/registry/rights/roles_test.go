// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package rights

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// Only what can change what somebody sees counts: the rules of roles about Clusters, and who they are bound to.
func TestMatters(t *testing.T) {
	t.Parallel()
	role := func(name string, rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
		return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"rules": name}}, Rules: rules}
	}
	bound := func(role string, who ...string) *rbacv1.ClusterRoleBinding {
		out := &rbacv1.ClusterRoleBinding{RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: role}}
		for _, name := range who {
			out.Subjects = append(out.Subjects, rbacv1.Subject{Kind: rbacv1.UserKind, Name: name})
		}
		return out
	}
	pods := rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}
	client, err := kubernetes.NewForConfig(&rest.Config{}) // which nobody asks
	if err != nil {
		t.Fatal(err)
	}
	w := NewWatched(informers.NewSharedInformerFactory(client, 0))
	for _, r := range []*rbacv1.ClusterRole{role("prod", groupsRule("get", "prod")), role("pods", pods)} {
		if err := w.roles.GetStore().Add(r); err != nil {
			t.Fatal(err)
		}
	}
	gone := cache.DeletedFinalStateUnknown{Key: "x"}
	for name, tt := range map[string]struct {
		matters       func(before, after any) bool
		before, after any
		want          bool
	}{
		"a new role":                {roleMatters, nil, role("a", groupsRule("get", "prod")), true},
		"a role that goes":          {roleMatters, role("a", clustersRule("get", "a")), nil, true},
		"a role that went unseen":   {roleMatters, gone, nil, true},
		"another name":              {roleMatters, role("a", clustersRule("get", "a")), role("a", clustersRule("get", "b")), true},
		"a label":                   {roleMatters, role("a", clustersRule("get", "a")), role("b", clustersRule("get", "a")), false},
		"a right to change":         {roleMatters, role("a"), role("a", groupsRule("update", "prod")), false},
		"pods":                      {roleMatters, nil, role("a", pods), false},
		"a new binding":             {w.bindingMatters, nil, bound("prod", "a"), true},
		"a binding that goes":       {w.bindingMatters, bound("prod", "a"), nil, true},
		"a binding that went":       {w.bindingMatters, gone, nil, true},
		"somebody else":             {w.bindingMatters, bound("prod", "a"), bound("prod", "b"), true},
		"the same":                  {w.bindingMatters, bound("prod", "a"), bound("prod", "a"), false},
		"of pods":                   {w.bindingMatters, nil, bound("pods", "a"), false},
		"of pods before":            {w.bindingMatters, bound("prod", "a"), bound("pods", "a"), true},
		"of a role that is missing": {w.bindingMatters, nil, bound("missing", "a"), true},
	} {
		if got := tt.matters(tt.before, tt.after); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
