// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// discoveryRequests is how many lists of kinds are asked for at a time.
const discoveryRequests = 16

// served is where a kind is.
type served struct {
	schema.GroupVersionResource
	namespaced bool
}

// kinds finds out which kinds an API server serves, and remembers it. The discovery client of client-go does the same and
// links every kind of Kubernetes.
type kinds struct {
	client *Client

	mu    sync.Mutex
	lists map[schema.GroupVersion][]metav1.APIResource
}

// resources are the kinds of a group in one version; kube.ErrKindUnknown where that is not served. Subresources are none.
func (k *kinds) resources(ctx context.Context, gv schema.GroupVersion) ([]metav1.APIResource, error) {
	k.mu.Lock()
	known, ok := k.lists[gv]
	k.mu.Unlock()
	if ok {
		return known, nil
	}
	path := "/apis/" + gv.String()
	if gv.Group == "" {
		path = "/api/" + gv.Version
	}
	var list metav1.APIResourceList
	if err := k.client.get(ctx, path, &list); apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("%w: %s", kube.ErrKindUnknown, gv)
	} else if err != nil {
		return nil, err
	}
	found := slices.DeleteFunc(list.APIResources, func(r metav1.APIResource) bool { return strings.Contains(r.Name, "/") })
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lists[gv] = found
	return found, nil
}

// find says where a kind is served; kube.ErrKindUnknown where it is not.
func (k *kinds) find(ctx context.Context, gvk schema.GroupVersionKind) (served, error) {
	list, err := k.resources(ctx, gvk.GroupVersion())
	if err != nil && !errors.Is(err, kube.ErrKindUnknown) {
		return served{}, err
	}
	for _, r := range list {
		if r.Kind == gvk.Kind {
			return served{gvk.GroupVersion().WithResource(r.Name), r.Namespaced}, nil
		}
	}
	return served{}, fmt.Errorf("%w: %s in %s", kube.ErrKindUnknown, gvk.Kind, gvk.GroupVersion())
}

// groups are the versions of every group that is served: the core first, of each group the preferred version first.
func (k *kinds) groups(ctx context.Context) ([]schema.GroupVersion, error) {
	var core metav1.APIVersions
	if err := k.client.get(ctx, "/api", &core); err != nil {
		return nil, err
	}
	var others metav1.APIGroupList
	if err := k.client.get(ctx, "/apis", &others); err != nil {
		return nil, err
	}
	var out []schema.GroupVersion
	for _, version := range core.Versions {
		out = append(out, schema.GroupVersion{Version: version})
	}
	for _, g := range others.Groups {
		versions := slices.Insert(slices.Clone(g.Versions), 0, g.PreferredVersion)
		for _, v := range versions {
			if gv := (schema.GroupVersion{Group: g.Name, Version: v.Version}); v.Version != "" && !slices.Contains(out, gv) {
				out = append(out, gv)
			}
		}
	}
	return out, nil
}

// named is a kind with the names that a user may call it by.
type named struct {
	gvk   schema.GroupVersionKind
	names metav1.APIResource
}

// all are the kinds of these versions, in their order. A group that does not answer, as one whose own server is away, is
// left out.
func (k *kinds) all(ctx context.Context, groups []schema.GroupVersion) []named {
	lists := make([][]metav1.APIResource, len(groups))
	var group errgroup.Group
	group.SetLimit(discoveryRequests)
	for i, gv := range groups {
		group.Go(func() error {
			lists[i], _ = k.resources(ctx, gv)
			return nil
		})
	}
	_ = group.Wait() // no error is returned
	var out []named
	for i, list := range lists {
		for _, r := range list {
			out = append(out, named{groups[i].WithKind(r.Kind), r})
		}
	}
	return out
}

// Namespaced are the kinds in namespaces whose objects can be listed and deleted, each in one version. It returns an error when
// these may not be all, as when a group does not answer.
func (c *Client) Namespaced(ctx context.Context) ([]schema.GroupVersionResource, error) {
	k := &kinds{client: c, lists: map[schema.GroupVersion][]metav1.APIResource{}}
	groups, err := k.groups(ctx)
	if err != nil {
		return nil, err
	}
	var out []schema.GroupVersionResource
	for _, gv := range groups {
		list, err := k.resources(ctx, gv)
		if err != nil {
			return nil, err
		}
		for i := range list {
			r := &list[i]
			known := slices.ContainsFunc(out, func(o schema.GroupVersionResource) bool { return o.Group == gv.Group && o.Resource == r.Name })
			if r.Namespaced && !known && slices.Contains(r.Verbs, "list") && slices.Contains(r.Verbs, "delete") {
				out = append(out, gv.WithResource(r.Name))
			}
		}
	}
	return out, nil
}

// Kinds are all kinds whose objects can be listed, changed and deleted, each in one version, but for the registry's under
// their other name. It returns an error when these may not be all, as when a group does not answer.
func (r *Reader) Kinds(ctx context.Context) ([]schema.GroupVersionKind, error) {
	groups, err := r.kinds.groups(ctx)
	if err != nil {
		return nil, err
	}
	lists := make([][]metav1.APIResource, len(groups))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(discoveryRequests)
	for i, gv := range groups {
		group.Go(func() (err error) {
			lists[i], err = r.kinds.resources(ctx, gv)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	var out []schema.GroupVersionKind
	for i, gv := range groups {
		for _, kind := range lists[i] {
			known := slices.ContainsFunc(out, func(o schema.GroupVersionKind) bool { return o.Group == gv.Group && o.Kind == kind.Kind })
			all := slices.Contains(kind.Verbs, "list") && slices.Contains(kind.Verbs, "update") && slices.Contains(kind.Verbs, "delete")
			if !known && all && (gv.Group == v1alpha1.GroupName || !v1alpha1.IsOwnGroup(gv.Group)) {
				out = append(out, gv.WithKind(kind.Kind))
			}
		}
	}
	return out, nil
}

// parse reads a kind as kubectl does: secret, secrets, Secret, cm, deployments.apps, deployments.v1.apps. Of several it
// takes the first, in the order of groups: the core, then as the API server lists them, preferred versions first.
func (k *kinds) parse(ctx context.Context, arg string) (gvk schema.GroupVersionKind, found bool, err error) {
	groups, err := k.groups(ctx)
	if err != nil {
		return gvk, false, err
	}
	withVersion, plain := schema.ParseResourceArg(strings.ToLower(arg))
	if withVersion != nil {
		at := schema.GroupVersion{Group: withVersion.Group, Version: withVersion.Version}
		if slices.Contains(groups, at) {
			if gvk, found = choose(k.all(ctx, []schema.GroupVersion{at}), withVersion.Resource); found {
				return gvk, true, nil
			}
		}
	}
	gvk, found = choose(k.all(ctx, inGroup(groups, plain.Group)), plain.Resource)
	return gvk, found, nil
}

// inGroup are the versions of a group, or else of those whose names begin with it; all for "".
func inGroup(groups []schema.GroupVersion, name string) []schema.GroupVersion {
	if name == "" {
		return groups
	}
	only := func(keep func(group string) bool) []schema.GroupVersion {
		return slices.DeleteFunc(slices.Clone(groups), func(gv schema.GroupVersion) bool { return !keep(gv.Group) })
	}
	if exact := only(func(group string) bool { return group == name }); len(exact) > 0 {
		return exact
	}
	return only(func(group string) bool { return strings.HasPrefix(group, name) })
}

// choose finds a kind by its plural, then by a short name, then by its singular.
func choose(all []named, name string) (schema.GroupVersionKind, bool) {
	for _, is := range []func(metav1.APIResource) bool{
		func(r metav1.APIResource) bool { return r.Name == name },
		func(r metav1.APIResource) bool { return slices.Contains(r.ShortNames, name) },
		func(r metav1.APIResource) bool { return r.SingularName == name || strings.ToLower(r.Kind) == name },
	} {
		if i := slices.IndexFunc(all, func(n named) bool { return is(n.names) }); i >= 0 {
			return all[i].gvk, true
		}
	}
	return schema.GroupVersionKind{}, false
}
