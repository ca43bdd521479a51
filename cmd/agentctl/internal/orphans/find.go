// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package orphans

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/byname"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
)

// kindRequests is how many kinds are listed at a time.
const kindRequests = 16

// orphan is one object that nobody maintains. Its JSON is stable: fields are only ever added.
type orphan struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Namespace  string   `json:"namespace,omitempty"`
	Name       string   `json:"name"`
	Owner      string   `json:"owner"` // the name of the cluster that it is from, or its clusterID
	OwnerID    string   `json:"ownerID"`
	Rules      []string `json:"rules"` // that made it

	object *unstructured.Unstructured
}

// list is what was found. Its JSON is stable: fields are only ever added.
type list struct {
	Orphans []*orphan `json:"orphans"`
	Unknown []string  `json:"unknown"` // what could not be looked at

	reader *clusters.Reader
}

// find looks for the orphans that are meant, in the order of their kinds and names.
func (o *Options) find(ctx context.Context, c *clusters.Client) (*list, error) {
	out := &list{Orphans: []*orphan{}, Unknown: []string{}, reader: clusters.NewReader(c)}
	members, err := c.Members(ctx)
	if err != nil {
		return nil, err
	}
	owners := map[string]string{}
	for _, m := range members {
		owners[string(m.Spec.ClusterID)] = m.Name
	}
	if len(o.Objects) > 0 {
		err = out.named(ctx, o, owners)
	} else {
		err = out.all(ctx, o.Namespace, isOrphan, owners)
	}
	return out, err
}

// named reads the objects that are named, each of which must be an orphan.
func (l *list) named(ctx context.Context, o *Options, owners map[string]string) error {
	for _, text := range o.Objects {
		at, err := byname.Place(ctx, l.reader, text, o.Namespace)
		if err != nil {
			return err
		}
		obj, err := l.reader.Get(ctx, at)
		switch {
		case err != nil:
			return l.reader.Errorf("read %s: %w", text, err)
		case obj == nil:
			return l.reader.Errorf("%s does not exist%s", text, in(at.Namespace))
		case !isOrphan(obj):
			return l.reader.Errorf("%s%s is no orphan: %s", text, in(at.Namespace), what(obj))
		}
		l.Orphans = append(l.Orphans, asOrphan(obj, owners))
	}
	return nil
}

func in(namespace string) string {
	if namespace == "" {
		return ""
	}
	return " in namespace " + namespace
}

// all looks at the objects of every kind that carry the label of an owner, for those to keep.
func (l *list) all(ctx context.Context, namespace string, keep func(*unstructured.Unstructured) bool, owners map[string]string) error {
	kinds, err := l.reader.Kinds(ctx)
	if err != nil {
		return l.reader.Errorf("find out which kinds there are: %w", err)
	}
	found, problems := make([][]*orphan, len(kinds)), make([]string, len(kinds))
	var group errgroup.Group
	group.SetLimit(kindRequests)
	for i, gvk := range kinds {
		group.Go(func() error {
			found[i], problems[i] = l.ofKind(ctx, gvk, namespace, keep, owners)
			return nil
		})
	}
	_ = group.Wait() // no error is returned
	l.Orphans = append(l.Orphans, slices.Concat(found...)...)
	for _, text := range problems {
		if text != "" {
			l.Unknown = append(l.Unknown, text)
		}
	}
	slices.SortFunc(l.Orphans, func(a, b *orphan) int {
		return cmp.Or(strings.Compare(a.group(), b.group()), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return nil
}

func (l *list) ofKind(ctx context.Context, gvk schema.GroupVersionKind, namespace string, keep func(*unstructured.Unstructured) bool, owners map[string]string) (out []*orphan, problem string) {
	if namespaced, err := l.reader.IsNamespaced(ctx, gvk); err == nil && namespace != "" && !namespaced {
		return nil, ""
	}
	objects, whole, err := l.reader.List(ctx, gvk, syncrules.Scope{Namespace: namespace, LabelSelector: v1alpha1.LabelOwnerClusterID})
	switch {
	case err != nil:
		return nil, fmt.Sprintf("kind %s cannot be listed: %s", gvk.GroupKind(), clusters.Reason(err))
	case !whole:
		problem = fmt.Sprintf("of kind %s only the first %d copies were looked at", gvk.GroupKind(), clusters.MaxListed)
	}
	for _, obj := range objects {
		if keep(obj) {
			out = append(out, asOrphan(obj, owners))
		}
	}
	return out, problem
}

func isOrphan(obj *unstructured.Unstructured) bool {
	return syncrules.IsCopy(obj) && syncrules.Orphaned(obj)
}

// what says what an object is that is no orphan.
func what(obj *unstructured.Unstructured) string {
	if syncrules.IsCopy(obj) {
		return "its agent maintains it, as a copy of an object of the cluster with the clusterID " + clusters.Bound(syncrules.Owner(obj))
	}
	return "it is no copy"
}

func asOrphan(obj *unstructured.Unstructured, owners map[string]string) *orphan {
	id := syncrules.Owner(obj)
	return &orphan{
		APIVersion: obj.GetAPIVersion(), Kind: obj.GetKind(), Namespace: obj.GetNamespace(), Name: obj.GetName(),
		Owner: cmp.Or(owners[id], id), OwnerID: id, Rules: append([]string{}, syncrules.MadeBy(obj)...), object: obj,
	}
}

// group is the kind as kubectl takes it.
func (o *orphan) group() string {
	return strings.ToLower(o.object.GroupVersionKind().GroupKind().String())
}

func (o *orphan) String() string {
	if o.Namespace == "" {
		return o.group() + "/" + o.Name
	}
	return o.group() + "/" + o.Name + in(o.Namespace)
}

func (l *list) print(out *cli.Output) error {
	var rows [][]string
	for _, o := range l.Orphans {
		if out.Names(o.group(), []string{o.Name}) {
			continue
		}
		rows = append(rows, []string{o.group(), o.Namespace, o.Name, o.Owner, strings.Join(o.Rules, ",")})
	}
	switch {
	case out.Format == "name":
		return nil
	case !out.ForPeople():
		return out.Document(l)
	case len(rows) == 0:
		fmt.Fprintln(out.Stderr, "no orphans")
	default:
		if err := cli.PrintTable(out.Stdout, []string{"KIND", "NAMESPACE", "NAME", "OWNER", "RULES"}, rows); err != nil {
			return err
		}
	}
	for _, text := range l.Unknown {
		fmt.Fprintf(out.Stderr, "unknown: %s\n", text)
	}
	return nil
}
