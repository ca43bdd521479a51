// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/registry/rest"

	view "github.com/roster-mesh/roster/kube/api/registry/v1alpha1"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/kube/apiserver/registry/rights"
	"github.com/roster-mesh/roster/kube/registry"
)

// store is clusters.
type store struct{ *Server }

var (
	_ rest.Getter               = &store{}
	_ rest.Lister               = &store{}
	_ rest.Watcher              = &store{}
	_ rest.CreaterUpdater       = &store{}
	_ rest.GracefulDeleter      = &store{}
	_ rest.SingularNameProvider = &store{}
	_ rest.Scoper               = &store{}
)

// New implements rest.Storage.
func (s *store) New() runtime.Object { return &view.Cluster{} }

// NewList implements rest.Lister.
func (s *store) NewList() runtime.Object { return &view.ClusterList{} }

// Destroy implements rest.Storage.
func (s *store) Destroy() {}

// NamespaceScoped implements rest.Scoper.
func (s *store) NamespaceScoped() bool { return false }

// GetSingularName implements rest.SingularNameProvider.
func (s *store) GetSingularName() string { return "cluster" }

// Get implements rest.Getter.
func (s *store) Get(ctx context.Context, name string, o *metav1.GetOptions) (runtime.Object, error) {
	c, err := s.visible(ctx, name, *o)
	if c == nil {
		return nil, err
	}
	return registry.FromCluster(c), nil
}

// visible returns a stored Cluster that the caller may get; of one that cannot be read, its metadata with errUnreadable. One that
// he may not get is not found. What he may do is asked before it is read, and the same for every name, whether there is one or
// not: so neither an error nor the time that an answer takes tells what is hidden from what is missing.
func (s *Server) visible(ctx context.Context, name string, o metav1.GetOptions) (*v1alpha1.Cluster, error) {
	who, err := caller(ctx)
	if err != nil {
		return nil, err
	}
	if len(apivalidation.NameIsDNSSubdomain(name, false)) > 0 {
		return nil, notFound(name) // nothing is called so
	}
	may, err := s.o.Rights.MayStored(ctx, who, "get", rights.Target{Name: name})
	if err != nil {
		return nil, unanswered(err)
	}
	groups := &rights.Scope{}
	if !may {
		if groups, err = s.o.Rights.Groups(ctx, who); err != nil {
			return nil, unanswered(err)
		}
		if groups.Empty() {
			return nil, notFound(name)
		}
	}
	c, err := s.one(ctx, name, o)
	err = s.behind(err)
	if apierrors.IsNotFound(err) || !may && c != nil && !groups.SeesGroup(c.Labels[rights.GroupLabel]) {
		return nil, notFound(name) // in the same words
	}
	return c, err
}

// Watch implements rest.Watcher.
func (s *store) Watch(ctx context.Context, o *internalversion.ListOptions) (watch.Interface, error) {
	asked := time.Now()
	scope, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	options := listOptions(o)
	options.Watch = true
	w := &watcher{server: s.Server, scope: scope, asked: asked, shown: map[string]bool{}}
	if err := w.begin(ctx, options); err != nil {
		return nil, err
	}
	return w, nil
}

func (s *Server) scope(ctx context.Context) (*rights.Scope, error) {
	who, err := caller(ctx)
	if err != nil {
		return nil, err
	}
	scope, err := s.o.Rights.Scope(ctx, who)
	if err != nil {
		return nil, unanswered(err)
	}
	return scope, nil
}

// listOptions are those that the API server behind gets.
func listOptions(o *internalversion.ListOptions) metav1.ListOptions {
	if o == nil {
		return metav1.ListOptions{}
	}
	out := metav1.ListOptions{
		AllowWatchBookmarks: o.AllowWatchBookmarks, ResourceVersion: o.ResourceVersion, ResourceVersionMatch: o.ResourceVersionMatch,
		TimeoutSeconds: o.TimeoutSeconds, Limit: o.Limit, Continue: o.Continue, SendInitialEvents: o.SendInitialEvents,
	}
	if o.LabelSelector != nil {
		out.LabelSelector = o.LabelSelector.String()
	}
	if o.FieldSelector != nil {
		out.FieldSelector = o.FieldSelector.String()
	}
	return out
}
