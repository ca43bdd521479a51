// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package rights

import (
	"cmp"
	"context"
	"errors"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/informers"
	rbaclisters "k8s.io/client-go/listers/rbac/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/registry/rbac/validation"
)

// Watched are the Roles of an API server, kept by watches of its ClusterRoles and ClusterRoleBindings.
type Watched struct {
	resolver        *validation.DefaultRuleResolver
	roles, bindings cache.SharedIndexInformer
	byName          clusterRoles

	mu      sync.Mutex
	version string // see Version; empty until somebody asks
}

// NewWatched returns Roles that are right once the informers of the factory have synced; Start those after it.
func NewWatched(factory informers.SharedInformerFactory) *Watched {
	roles, bindings := factory.Rbac().V1().ClusterRoles(), factory.Rbac().V1().ClusterRoleBindings()
	byName := clusterRoles{roles.Lister()}
	return &Watched{
		resolver: validation.NewDefaultRuleResolver(nil, noRoleBindings{}, byName, clusterRoleBindings{bindings.Lister()}),
		roles:    roles.Informer(), bindings: bindings.Informer(), byName: byName,
	}
}

// HasSynced says whether all roles and bindings are known.
func (w *Watched) HasSynced() bool { return w.roles.HasSynced() && w.bindings.HasSynced() }

// Version implements Roles. Before the first change it is the one that the roles were listed at.
func (w *Watched) Version() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.version == "" {
		w.version = w.newest("")
	}
	return w.version
}

// newest returns the newest of a version and those that the watches have come to. It is empty where one is not known.
func (w *Watched) newest(of string) string {
	for _, other := range []string{w.roles.LastSyncResourceVersion(), w.bindings.LastSyncResourceVersion()} {
		order, err := resourceversion.CompareResourceVersion(cmp.Or(of, other), other)
		if err != nil {
			return ""
		}
		if of == "" || order < 0 {
			of = other
		}
	}
	return of
}

// Notify calls changed after each change of a role or a binding, with whether that can change what anybody sees.
func (w *Watched) Notify(changed func(sight bool)) error {
	handle := func(matters func(before, after any) bool) cache.ResourceEventHandler {
		told := func(before, after any) {
			sight := matters(before, after)
			if sight && after == nil {
				w.changed(before)
			} else if sight {
				w.changed(after)
			}
			changed(sight)
		}
		return cache.ResourceEventHandlerDetailedFuncs{
			AddFunc: func(after any, initial bool) {
				if !initial {
					told(nil, after)
				}
			},
			UpdateFunc: func(before, after any) {
				was, ok := before.(metav1.Object)
				is, same := after.(metav1.Object)
				if !ok || !same || was.GetResourceVersion() != is.GetResourceVersion() { // else nothing but a new list
					told(before, after)
				}
			},
			DeleteFunc: func(before any) { told(before, nil) },
		}
	}
	_, err := w.roles.AddEventHandler(handle(roleMatters))
	_, bindingsErr := w.bindings.AddEventHandler(handle(w.bindingMatters))
	return errors.Join(err, bindingsErr)
}

// changed is told of an object whose change matters. What was deleted while nobody watched has no version of that.
func (w *Watched) changed(object any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.version = ""
	if object, ok := object.(metav1.Object); ok {
		w.version = w.newest(object.GetResourceVersion())
	}
}

// roleMatters says whether a role proposes something else than it did.
func roleMatters(before, after any) bool {
	var proposed [2]proposal
	for i, side := range []any{before, after} {
		role, ok := side.(*rbacv1.ClusterRole)
		if !ok && side != nil {
			return true // it was deleted while nobody watched
		}
		if ok {
			proposed[i] = propose(role.Rules)
		}
	}
	return !proposed[0].equal(&proposed[1])
}

// bindingMatters says whether a binding of a role that proposes something has changed. What a role that is not known yet
// proposes is not known either.
func (w *Watched) bindingMatters(before, after any) bool {
	was, ok := before.(*rbacv1.ClusterRoleBinding)
	is, same := after.(*rbacv1.ClusterRoleBinding)
	if !ok && before != nil || ok && same && equality.Semantic.DeepEqual(was.Subjects, is.Subjects) && was.RoleRef == is.RoleRef {
		return !ok
	}
	for _, side := range []*rbacv1.ClusterRoleBinding{was, is} {
		if side == nil {
			continue
		}
		role, err := w.byName.Get(side.RoleRef.Name)
		if err != nil {
			return true
		}
		if p := propose(role.Rules); !p.equal(&proposal{}) {
			return true
		}
	}
	return false
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
