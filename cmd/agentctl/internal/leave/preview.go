// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package leave

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/fleet"
	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
)

// preview is what a dry run says would become orphaned. Its JSON is stable.
type preview struct {
	Cluster string        `json:"cluster"` // that would be removed, or leave
	In      string        `json:"in"`      // what is listed below is in this cluster
	Rules   []string      `json:"rules"`   // that would be paused
	Orphans []orphanCount `json:"orphans"`
	Unknown []string      `json:"unknown"` // what cannot be known from here
	// Admitted are the clusters that would not be in the group without it: --with-admitted removes them, too.
	Admitted []string `json:"admitted"`
}

type orphanCount struct {
	Kind   string   `json:"kind"`
	Owner  string   `json:"owner"` // name of the cluster that the copies are from
	Copies int      `json:"copies"`
	More   bool     `json:"more,omitempty"` // there are more than were counted
	Some   []string `json:"some"`
}

const someNames = 5

// showPreview says what would become orphaned when target is removed, or with nil when own leaves.
func showPreview(ctx context.Context, c *clusters.Client, own, target *unstructured.Unstructured, out *cli.Output) error {
	members, err := c.Members(ctx)
	if err != nil {
		return err
	}
	f := &preview{Cluster: own.GetName(), In: own.GetName(), Rules: []string{}, Orphans: []orphanCount{}, Unknown: []string{}, Admitted: []string{}}
	names, selector := map[string]string{}, v1alpha1.LabelOwnerClusterID+"!="+clusters.IDOf(own)+","+v1alpha1.LabelOwnerClusterID
	if target != nil {
		f.Admitted = fleet.AdmittedIn(members, clusters.IDOf(own)).Names(clusters.IDOf(target))
		f.Cluster, selector = target.GetName(), v1alpha1.LabelOwnerClusterID+"="+clusters.IDOf(target)
	}
	var others []string
	for _, m := range members {
		names[string(m.Spec.ClusterID)] = m.Name
		if m.Name != own.GetName() && m.Name != f.Cluster {
			others = append(others, m.Name)
		}
	}
	if err := f.countOrphans(ctx, c, names, selector); err != nil {
		return err
	}
	switch {
	case target == nil && len(others) > 0:
		f.Unknown = append(f.Unknown, fmt.Sprintf("copies of objects of %s in %s: agentctl remove %s --dry-run in their contexts counts them", own.GetName(), strings.Join(others, ", "), own.GetName()))
	case target != nil:
		for _, name := range others {
			f.Unknown = append(f.Unknown, fmt.Sprintf("copies of objects of %s in %s: agentctl remove %s --dry-run in its context counts them", f.Cluster, name, f.Cluster))
		}
		f.Unknown = append(f.Unknown, fmt.Sprintf("copies in %s itself, of all other clusters: agentctl leave --dry-run in its context counts them", f.Cluster))
	}
	if !out.ForPeople() {
		return out.Document(f)
	}
	f.print(out.Stdout)
	return nil
}

// countOrphans looks at the copies of every kind that a rule here is about.
func (f *preview) countOrphans(ctx context.Context, c *clusters.Client, names map[string]string, selector string) error {
	rules, err := c.Rules(ctx)
	if err != nil {
		return err
	}
	reader := clusters.NewReader(c)
	removed := ""
	if !strings.Contains(selector, "!=") {
		removed = strings.TrimPrefix(selector, v1alpha1.LabelOwnerClusterID+"=")
	}
	kinds := map[schema.GroupVersionKind]bool{}
	for _, rule := range rules {
		if owner := syncrules.Owner(rule); owner != "" && (removed == "" || owner == removed) {
			f.Rules = append(f.Rules, rule.Name)
		}
		kinds[rule.Spec.GVK.Schema()] = true
		for _, r := range rule.Spec.Rules {
			if to := r.Mutations.GVK; to != nil { // parts that are empty stay
				from := rule.Spec.GVK
				kinds[schema.GroupVersionKind{Group: cmp.Or(to.Group, from.Group), Version: cmp.Or(to.Version, from.Version), Kind: cmp.Or(to.Kind, from.Kind)}] = true
			}
		}
	}
	for _, gvk := range slices.SortedFunc(maps.Keys(kinds), func(a, b schema.GroupVersionKind) int { return strings.Compare(a.String(), b.String()) }) {
		copies, whole, err := reader.List(ctx, gvk, syncrules.Scope{LabelSelector: selector})
		if errors.Is(err, kube.ErrKindUnknown) {
			continue
		}
		if err != nil {
			f.Unknown = append(f.Unknown, fmt.Sprintf("copies of kind %s in %s: %s", gvk.GroupKind(), f.In, cli.OneLine(err.Error())))
			continue
		}
		f.Orphans = append(f.Orphans, countByOwner(gvk, copies, whole, names)...)
	}
	return nil
}

func countByOwner(gvk schema.GroupVersionKind, copies []*unstructured.Unstructured, whole bool, names map[string]string) []orphanCount {
	slices.SortFunc(copies, func(a, b *unstructured.Unstructured) int {
		return cmp.Or(strings.Compare(a.GetNamespace(), b.GetNamespace()), strings.Compare(a.GetName(), b.GetName()))
	})
	byOwner := map[string]*orphanCount{}
	for _, u := range copies {
		owner := syncrules.Owner(u)
		if syncrules.Orphaned(u) || len(syncrules.MadeBy(u)) == 0 {
			continue
		}
		c := byOwner[owner]
		if c == nil {
			name := names[owner]
			if name == "" {
				name = owner
			}
			c = &orphanCount{Kind: gvk.GroupKind().String(), Owner: name, More: !whole, Some: []string{}}
			byOwner[owner] = c
		}
		if c.Copies++; len(c.Some) < someNames {
			c.Some = append(c.Some, strings.TrimPrefix(u.GetNamespace()+"/"+u.GetName(), "/"))
		}
	}
	out := make([]orphanCount, 0, len(byOwner))
	for _, owner := range slices.Sorted(maps.Keys(byOwner)) {
		out = append(out, *byOwner[owner])
	}
	return out
}

func (f *preview) print(w io.Writer) {
	verb := "were removed"
	if f.Cluster == f.In {
		verb = "left"
	}
	fmt.Fprintf(w, "If cluster %s %s, these copies in cluster %s would become orphans:\n", f.Cluster, verb, f.In)
	for _, c := range f.Orphans {
		more := ""
		if c.More {
			more = "at least "
		}
		rest := ""
		if c.Copies > len(c.Some) {
			rest = ", …"
		}
		fmt.Fprintf(w, "  %s%d of kind %s from cluster %s: %s%s\n", more, c.Copies, c.Kind, c.Owner, strings.Join(c.Some, ", "), rest)
	}
	if len(f.Orphans) == 0 {
		fmt.Fprintln(w, "  none")
	}
	if len(f.Rules) > 0 {
		fmt.Fprintf(w, "and these rules would be paused: %s\n", strings.Join(f.Rules, ", "))
	}
	if len(f.Admitted) > 0 {
		fmt.Fprintf(w, "These clusters are in the group because of it, and would go with --with-admitted: %s\n", strings.Join(f.Admitted, ", "))
	}
	for _, line := range f.Unknown {
		fmt.Fprintf(w, "not known from here: %s\n", line)
	}
}
