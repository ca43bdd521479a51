// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package standalone

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-helpers/auth/rbac/reconciliation"
	rbacrest "k8s.io/kubernetes/pkg/registry/rbac/rest"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"

	"github.com/roster-mesh/roster/kube/apiserver/objects"
)

// upstreamRoles is the hook of Kubernetes that ensureRoles stands in for. It sleeps for a second, and then asks for and
// writes one role after the other.
const upstreamRoles = rbacrest.PostStartHookName

// ensureRoles makes the cluster have the default roles and bindings of Kubernetes, by Kubernetes' own rules: what is
// missing in one of them is added, what others have added stays, and one that is annotated as protected is left alone.
func ensureRoles(ctx context.Context, client kubernetes.Interface) error {
	roles, err := client.RbacV1().ClusterRoles().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	bindings, err := client.RbacV1().ClusterRoleBindings().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	var group errgroup.Group
	group.SetLimit(objects.WritesAtOnce)
	role := func(owner reconciliation.RuleOwner, client reconciliation.RuleOwnerModifier) {
		group.Go(func() error {
			_, err := (&reconciliation.ReconcileRoleOptions{Role: owner, Client: client, Confirm: true}).Run()
			return about("role", owner.GetName(), err)
		})
	}
	binding := func(owner reconciliation.RoleBinding, client reconciliation.RoleBindingModifier) {
		group.Go(func() error {
			_, err := (&reconciliation.ReconcileRoleBindingOptions{RoleBinding: owner, Client: client, Confirm: true}).Run()
			return about("role binding", owner.GetName(), err)
		})
	}
	knownRoles := clusterRoles{reconciliation.ClusterRoleModifier{Client: client.RbacV1().ClusterRoles()}, roles.Items}
	knownBindings := clusterRoleBindings{reconciliation.ClusterRoleBindingClientAdapter{Client: client.RbacV1().ClusterRoleBindings()}, bindings.Items}
	inNamespaces := reconciliation.RoleModifier{Client: client.RbacV1(), NamespaceClient: client.CoreV1().Namespaces()}
	boundInNamespaces := reconciliation.RoleBindingClientAdapter{Client: client.RbacV1(), NamespaceClient: client.CoreV1().Namespaces()}
	for _, r := range append(bootstrappolicy.ClusterRoles(), bootstrappolicy.ControllerRoles()...) {
		role(reconciliation.ClusterRoleRuleOwner{ClusterRole: &r}, knownRoles)
	}
	for _, b := range append(bootstrappolicy.ClusterRoleBindings(), bootstrappolicy.ControllerRoleBindings()...) {
		binding(reconciliation.ClusterRoleBindingAdapter{ClusterRoleBinding: &b}, knownBindings)
	}
	for _, inNamespace := range bootstrappolicy.NamespaceRoles() {
		for _, r := range inNamespace {
			role(reconciliation.RoleRuleOwner{Role: &r}, inNamespaces)
		}
	}
	for _, inNamespace := range bootstrappolicy.NamespaceRoleBindings() {
		for _, b := range inNamespace {
			binding(reconciliation.RoleBindingAdapter{RoleBinding: &b}, boundInNamespaces)
		}
	}
	return group.Wait()
}

func about(kind, name string, err error) error {
	if err != nil {
		return fmt.Errorf("%s %s: %w", kind, name, err)
	}
	return nil
}

// clusterRoles answers reads from one list, so that a start does not ask for each of a hundred. When something has changed
// since, a write fails, and the whole is tried again.
type clusterRoles struct {
	reconciliation.ClusterRoleModifier

	listed []rbacv1.ClusterRole
}

// Get implements reconciliation.RuleOwnerModifier.
func (c clusterRoles) Get(_, name string) (reconciliation.RuleOwner, error) {
	for i := range c.listed {
		if c.listed[i].Name == name {
			return reconciliation.ClusterRoleRuleOwner{ClusterRole: &c.listed[i]}, nil
		}
	}
	return nil, apierrors.NewNotFound(rbacv1.Resource("clusterroles"), name)
}

// clusterRoleBindings does the same for bindings.
type clusterRoleBindings struct {
	reconciliation.ClusterRoleBindingClientAdapter

	listed []rbacv1.ClusterRoleBinding
}

// Get implements reconciliation.RoleBindingModifier.
func (c clusterRoleBindings) Get(_, name string) (reconciliation.RoleBinding, error) {
	for i := range c.listed {
		if c.listed[i].Name == name {
			return reconciliation.ClusterRoleBindingAdapter{ClusterRoleBinding: &c.listed[i]}, nil
		}
	}
	return nil, apierrors.NewNotFound(rbacv1.Resource("clusterrolebindings"), name)
}
