// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package orphans

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
)

func isRule(obj *unstructured.Unstructured) bool {
	return v1alpha1.IsOwnGroup(obj.GroupVersionKind().Group) && obj.GetKind() == "ResourceSyncRule"
}

// withoutSweeping leaves out what takes other objects with it, whether these are orphans or not: rules and Namespaces.
func withoutSweeping(all []*orphan) (rest, sweeping []*orphan) {
	for _, o := range all {
		if isRule(o.object) || o.object.GroupVersionKind().GroupKind() == (schema.GroupKind{Kind: "Namespace"}) {
			sweeping = append(sweeping, o)
		} else {
			rest = append(rest, o)
		}
	}
	return rest, sweeping
}

// announce refuses to delete a rule, unless the person has said yes, when an agent then deletes copies that are no orphans: those
// that the rule made and that are marked so. A dry run says how many.
func (o *ActOptions) announce(ctx context.Context, found *list, out *cli.Output) error {
	for _, one := range found.Orphans {
		if !isRule(one.object) {
			continue
		}
		with := &list{reader: found.reader}
		err := with.all(ctx, "", func(obj *unstructured.Unstructured) bool {
			return slices.Contains(syncrules.MadeBy(obj), one.Name) && !syncrules.Orphaned(obj) && syncrules.RuleDeletion(obj) == v1alpha1.DeletionDelete
		}, nil)
		if err != nil {
			return err
		}
		count := cli.Plural(len(with.Orphans), "object")
		if len(with.Unknown) > 0 {
			count = "at least " + count + " (" + cli.First(with.Unknown) + ")"
		} else if len(with.Orphans) == 0 {
			continue
		}
		if !o.Yes && !o.DryRun {
			return found.reader.Errorf("%s is not deleted: by its ruleDeletionPolicy an agent would delete %s that are no orphans; --yes does it", one, count)
		}
		fmt.Fprintf(cli.Printable{To: out.Stderr}, "with %s an agent deletes %s that are no orphans\n", one, count)
	}
	return nil
}
