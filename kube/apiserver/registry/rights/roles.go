// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package rights

import (
	"context"
	"errors"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/informers"
	rbaclisters "k8s.io/client-go/listers/rbac/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/registry/rbac/validation"
)

// Watched are the Roles of an API server, kept by watches of its ClusterRoles and ClusterRoleBindings.
type Watched struct {
	resolver *validation.DefaultRuleResolver
	synced   []cache.InformerSynced
	handle   []func(cache.ResourceEventHandler) error
}

// NewWatched returns Roles that are right once the informers of the factory have synced; Start those after it.
func NewWatched(factory informers.SharedInformerFactory) *Watched {
	roles, bindings := factory.Rbac().V1().ClusterRoles(), factory.Rbac().V1().ClusterRoleBindings()
	w := &Watched{resolver: validation.NewDefaultRuleResolver(nil, noRoleBindings{}, clusterRoles{roles.Lister()}, clusterRoleBindings{bindings.Lister()})}
	for _, informer := range []cache.SharedIndexInformer{roles.Informer(), bindings.Informer()} {
		w.synced = append(w.synced, informer.HasSynced)
		w.handle = append(w.handle, func(h cache.ResourceEventHandler) error {
			_, err := informer.AddEventHandler(h)
			return err
		})
	}
	return w
}

// HasSynced says whether all roles and bindings are known.
func (w *Watched) HasSynced() bool {
	for _, synced := range w.synced {
		if !synced() {
			return false
		}
	}
	return true
}

// Notify calls changed after each change of a role or a binding.
func (w *Watched) Notify(changed func()) error {
	var errs []error
	for _, handle := range w.handle {
		errs = append(errs, handle(cache.ResourceEventHandlerDetailedFuncs{
			AddFunc: func(_ any, initial bool) {
				if !initial {
					changed()
				}
			},
			UpdateFunc: func(before, after any) {
				was, ok := before.(metav1.Object)
				is, same := after.(metav1.Object)
				if !ok || !same || was.GetResourceVersion() != is.GetResourceVersion() { // else nothing but a new list
					changed()
				}
			},
			DeleteFunc: func(any) { changed() },
		}))
	}
	return errors.Join(errs...)
}

// RulesFor implements Roles. A binding of a role that is missing grants nothing.
func (w *Watched) RulesFor(ctx context.Context, caller user.Info) ([]rbacv1.PolicyRule, error) {
	if !w.HasSynced() {
		return nil, errors.New("the roles are not known yet")
	}
	rules, _ := w.resolver.RulesFor(ctx, caller, "") // what cannot be resolved grants nothing, to the authorizer neither
	return rules, nil
}

type clusterRoles struct{ rbaclisters.ClusterRoleLister }

// GetClusterRole implements validation.ClusterRoleGetter.
func (r clusterRoles) GetClusterRole(_ context.Context, name string) (*rbacv1.ClusterRole, error) {
	return r.Get(name)
}

type clusterRoleBindings struct {
	rbaclisters.ClusterRoleBindingLister
}

// ListClusterRoleBindings implements validation.ClusterRoleBindingLister.
func (b clusterRoleBindings) ListClusterRoleBindings(context.Context) ([]*rbacv1.ClusterRoleBinding, error) {
	return b.List(labels.Everything())
}

// noRoleBindings: rights in one namespace are none to objects without namespace.
type noRoleBindings struct{}

// ListRoleBindings implements validation.RoleBindingLister.
func (noRoleBindings) ListRoleBindings(context.Context, string) ([]*rbacv1.RoleBinding, error) {
	return nil, nil
}
