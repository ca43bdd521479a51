// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/fleet"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/rules/explain/answer"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// fleetReport is a rule as it is in each member that has it. Its JSON is stable: fields are only ever added.
type fleetReport struct {
	Rule     string           `json:"rule"`
	Clusters []*answer.Report `json:"clusters"`
	Without  int              `json:"without"` // members where the rule is not
	Unknown  []fleet.Unknown  `json:"unknown"`
}

// runFleet explains a rule from the view of every member.
func (o *Options) runFleet(ctx context.Context, own *fleet.Member, known map[string]*reached, unknown []fleet.Unknown, out *cli.Output) error {
	_, name, err := o.subject()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, o.Fleet.Timeout)
	defer cancel()
	rules, _ := fleet.List[v1alpha1.ResourceSyncRule](ctx, own, clusters.RuleResource()) // what cannot be read is as if there were none
	rules = slices.DeleteFunc(rules, func(r *v1alpha1.ResourceSyncRule) bool { return r.Name != name })
	f := &fleetReport{Rule: name, Clusters: []*answer.Report{}, Unknown: unknown}
	var reports []*answer.Report
	var group errgroup.Group
	group.SetLimit(8) // members that are explained at a time
	for id, c := range known {
		if c.api == nil || c.rulesWhy == "" && !c.rules[name] {
			f.Without += map[bool]int{true: 1}[c.api != nil]
			continue
		}
		r := &answer.Report{}
		reports = append(reports, r)
		group.Go(func() error {
			view, q := &reach{member: c.member, known: known}, *o
			if !c.local { // it says what is a rule and what a source: it gets nothing of that
				view.rules, q.NoDryRun = rules, true
			}
			one, err := q.explainAt(ctx, view, nil)
			if err != nil {
				one = &answer.Report{ClusterID: id, Context: clusters.Reason(err), Answer: answer.NotKnown}
			}
			*r = *one
			return nil
		})
	}
	_ = group.Wait() // no error is returned
	for _, r := range reports {
		if r.Rules == nil {
			f.Unknown = append(f.Unknown, fleet.Unknown{Cluster: cmp.Or(r.Cluster, r.ClusterID), ClusterID: r.ClusterID, Reason: r.Context})
		} else {
			f.Clusters = append(f.Clusters, r)
		}
	}
	slices.SortFunc(f.Clusters, func(a, b *answer.Report) int { return strings.Compare(a.Cluster, b.Cluster) })
	return cmp.Or(f.print(out), f.err())
}

func (f *fleetReport) print(out *cli.Output) error {
	if !out.ForPeople() {
		return out.Document(f)
	}
	w := cli.Printable{To: out.Stdout}
	for _, r := range f.Clusters {
		fmt.Fprintf(w, "in cluster %s: %s\n", r.Cluster, r.Answer)
		if r.Answer != answer.Synced {
			r.Print(w)
		}
	}
	fmt.Fprintf(w, "%s without the rule\n", cli.Plural(f.Without, "cluster"))
	fleet.Print(out, f.Unknown)
	return nil
}

// err is the exit code: that of the worst member, once all have answered.
func (f *fleetReport) err() error {
	if err := fleet.Incomplete(f.Unknown); err != nil {
		return err
	}
	for _, answer := range []string{answer.Blocked, answer.NotKnown, answer.Synced, answer.Unmatched} {
		for _, r := range f.Clusters {
			if r.Answer == answer {
				return r.Err()
			}
		}
	}
	return fmt.Errorf("no cluster of the group has a rule %q; `agentctl rules list --fleet` shows what there is", f.Rule)
}
