// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"

	view "github.com/roster-mesh/roster/kube/api/registry/v1alpha1"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/kube/apiserver/registry/rights"
	"github.com/roster-mesh/roster/kube/registry"
)

const (
	// groupsNamed is how many groups a selector names; of more it selects what is in any.
	groupsNamed = 100
	// namesNamed is how many Clusters a list asks for one by one; of more it asks for all.
	namesNamed = 20
	// noName is the name of no Cluster, for an answer that has a resourceVersion and no Clusters.
	noName = "roster-position"
)

// List implements rest.Lister. Who does not see everything gets what he sees in one answer: where it would go on is the name
// of a Cluster, which may be one that he does not see.
func (s *store) List(ctx context.Context, o *internalversion.ListOptions) (runtime.Object, error) {
	scope, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	options := listOptions(o)
	list := s.stored
	switch {
	case scope.Empty():
		options.Limit, options.Continue = 0, ""
		options.FieldSelector = and(options.FieldSelector, named(noName))
	case !scope.All:
		options.Limit = 0
		list = func(ctx context.Context, o metav1.ListOptions) (*v1alpha1.ClusterList, error) {
			return s.some(ctx, scope, o)
		}
	}
	stored, err := list(ctx, options)
	newer := options.Continue == "" && options.ResourceVersionMatch != metav1.ResourceVersionMatchExact // is as good
	if err == nil && newer && s.o.Rights.Before(stored.ResourceVersion) {
		// It is from a cache that is behind, and no watch would begin there.
		options.ResourceVersion, options.ResourceVersionMatch = "", ""
		stored, err = list(ctx, options)
	}
	if err != nil {
		return nil, s.behind(err)
	}
	out := &view.ClusterList{ListMeta: metav1.ListMeta{ResourceVersion: stored.ResourceVersion}, Items: []view.Cluster{}}
	if scope.All {
		out.Continue = stored.Continue
		out.Items = make([]view.Cluster, 0, len(stored.Items))
	}
	for i := range stored.Items {
		if c := &stored.Items[i]; scope.Sees(c.Name, c.Labels[rights.GroupLabel]) {
			out.Items = append(out.Items, *registry.FromCluster(c))
		}
	}
	return out, nil
}

// some lists the stored Clusters of a scope, and maybe others. Where it names few, only those are read: by name, and those of its
// groups by their label. The first answer is as new as the caller wants it, and the others are of the same moment.
func (s *Server) some(ctx context.Context, scope *rights.Scope, o metav1.ListOptions) (*v1alpha1.ClusterList, error) {
	if scope.Names.Len() > namesNamed || o.Continue != "" {
		return s.stored(ctx, o)
	}
	var asked []metav1.ListOptions
	if scope.ByGroup() {
		grouped := o
		grouped.LabelSelector = inGroups(o.LabelSelector, scope)
		asked = append(asked, grouped)
	}
	for _, name := range sets.List(scope.Names) {
		one := o
		one.FieldSelector = and(o.FieldSelector, named(name))
		asked = append(asked, one)
	}
	var out *v1alpha1.ClusterList
	for _, part := range asked {
		if out != nil {
			part.ResourceVersion, part.ResourceVersionMatch = out.ResourceVersion, metav1.ResourceVersionMatchExact
		}
		got, err := s.stored(ctx, part)
		switch {
		case out == nil && err == nil:
			out = got
		case out == nil:
			return nil, err
		case apierrors.IsResourceExpired(err): // the first answer came from a cache that is behind
			return s.stored(ctx, o)
		case err != nil:
			return nil, err
		default:
			out.Items = append(out.Items, got.Items...)
		}
	}
	byName := func(a, b v1alpha1.Cluster) int { return strings.Compare(a.Name, b.Name) }
	slices.SortFunc(out.Items, byName)
	out.Items = slices.CompactFunc(out.Items, func(a, b v1alpha1.Cluster) bool { return a.Name == b.Name }) // by its name and its group
	return out, nil
}

// inGroups is a label selector of what another one selects that may be in the groups of a scope.
func inGroups(selector string, scope *rights.Scope) string {
	groups := rights.GroupLabel
	if !scope.AllGroups && scope.Groups.Len() <= groupsNamed {
		groups += " in (" + strings.Join(sets.List(scope.Groups), ",") + ")"
	}
	return and(selector, groups)
}

// and is a selector of what two select; the first may be empty.
func and(a, b string) string {
	if a == "" {
		return b
	}
	return a + "," + b
}

// named is a field selector of a name, of which the API server behind reads one object and not all.
func named(name string) string { return metav1.ObjectNameField + "=" + name }
