// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/fleet"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// FleetOptions are which rules are listed, of the whole group.
type FleetOptions struct {
	*fleet.Group

	Rules []string // names; none for all
}

// Formats are what --output may be.
func (o *FleetOptions) Formats() []string { return cli.ListFormats() }

// Run prints the rules of the group, and returns an AnswerError unless all members were asked and all rules are Ready.
func (o *FleetOptions) Run(ctx context.Context, out *cli.Output) error {
	answers, err := fleet.Ask(ctx, o.Group, o.ask)
	if err != nil {
		return err
	}
	list := sumUp(answers)
	if err := list.print(out); err != nil {
		return err
	}
	if err := fleet.Incomplete(list.Unknown); err != nil {
		return err
	}
	for _, name := range o.Rules {
		if !slices.ContainsFunc(list.Rules, func(r *fleetRule) bool { return r.Name == name }) {
			return fmt.Errorf("no cluster of the group has a rule %q; `agentctl rules list --fleet` shows what there is", name)
		}
	}
	return list.answer()
}

// ask reads what the agent of one member says of the rules.
func (o *FleetOptions) ask(ctx context.Context, m *fleet.Member) ([]ruleState, error) {
	all, err := fleet.List[v1alpha1.ResourceSyncRule](ctx, m, clusters.RuleResource())
	if err != nil {
		return nil, err
	}
	var out []ruleState
	for _, rule := range all {
		if len(o.Rules) == 0 || slices.Contains(o.Rules, rule.Name) {
			out = append(out, stateOf(m, rule))
		}
	}
	return out, nil
}

// fleetList is what the whole group says of its rules. Its JSON is stable: fields are only ever added.
type fleetList struct {
	Clusters int             `json:"clusters"` // all members
	Rules    []*fleetRule    `json:"rules"`
	Unknown  []fleet.Unknown `json:"unknown"` // members that could not be asked
}

// fleetRule is one rule in all members that were asked.
type fleetRule struct {
	Name      string      `json:"name"`
	Kind      string      `json:"kind"`
	Clusters  int         `json:"clusters"` // that have it
	Ready     int         `json:"ready"`    // clusters where it is Ready
	Frozen    int         `json:"frozen"`   // clusters where copies stay as they are
	Matched   int64       `json:"matched"`
	Synced    int64       `json:"synced"`
	Failed    int64       `json:"failed"`
	Conflicts int64       `json:"conflicts"`
	Drifted   int64       `json:"drifted,omitempty"` // of a rule with mode Observe
	Bad       []ruleState `json:"bad"`               // where it is not as it should be, the worst first
}

// ruleState is a rule in one member.
type ruleState struct {
	Cluster   string             `json:"cluster"`
	ClusterID string             `json:"clusterID"`
	Health    clusters.Health    `json:"health"`
	Frozen    bool               `json:"frozen"`
	Ready     clusters.Readiness `json:"ready"`
	Matched   int32              `json:"matched"`
	Synced    int32              `json:"synced"`
	Failed    int32              `json:"failed"`
	Conflicts int32              `json:"conflicts"`
	Drifted   int32              `json:"drifted,omitempty"` // of a rule with mode Observe

	name, kind string
	observes   bool
	next       string // what to do, if it is known
}

func stateOf(m *fleet.Member, rule *v1alpha1.ResourceSyncRule) ruleState {
	st := rule.Status
	health, ready, _ := clusters.RuleHealth(rule)
	next := nextStep(m, rule, health, ready)
	ready.Reason, ready.Message = clusters.Bound(ready.Reason), clusters.Bound(ready.Message)
	return ruleState{
		Cluster: m.Name, ClusterID: m.ID, Health: health, Frozen: frozen(rule, ready), Ready: ready,
		Matched: st.Matched, Synced: st.Synced, Failed: st.Failed, Conflicts: st.Conflicts, Drifted: st.Drifted,
		name: clusters.Bound(rule.Name), kind: clusters.Bound(rule.Spec.GVK.Schema().GroupKind().String()),
		observes: rule.Spec.Mode == v1alpha1.ModeObserve, next: next,
	}
}

// frozen says that copies of a rule stay as they are, at least those from one cluster: the agent says so of the rule, or of a
// cluster that it does not watch, or watches and leaves alone.
func frozen(rule *v1alpha1.ResourceSyncRule, ready clusters.Readiness) bool {
	reasons := []string{
		"Paused", "DeletionGuard", "SourceRestored", "ConsentRequired", "NotUnderstood", "TargetUnknown", "InvalidRule", "VersionConflict", "TooManyRules",
	}
	return rule.Spec.Paused || rule.Spec.Mode == v1alpha1.ModeObserve || slices.Contains(reasons, ready.Reason) ||
		slices.ContainsFunc(rule.Status.Sources, func(s v1alpha1.SourceStatus) bool { return !s.Watching || s.Message != "" })
}

// sumUp adds up what the members say, by name and kind.
func sumUp(answers []fleet.Answer[[]ruleState]) *fleetList {
	out := &fleetList{Clusters: len(answers), Rules: []*fleetRule{}, Unknown: fleet.Unknowns(answers)}
	known := map[[2]string]*fleetRule{}
	for i := range answers {
		for _, s := range answers[i].Value {
			r := known[[2]string{s.name, s.kind}]
			if r == nil {
				r = &fleetRule{Name: s.name, Kind: s.kind, Bad: []ruleState{}}
				known[[2]string{s.name, s.kind}], out.Rules = r, append(out.Rules, r)
			}
			r.add(s)
		}
	}
	slices.SortFunc(out.Rules, func(a, b *fleetRule) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Kind, b.Kind))
	})
	for _, r := range out.Rules {
		slices.SortStableFunc(r.Bad, func(a, b ruleState) int {
			return cmp.Or(cmp.Compare(b.Health, a.Health), cmp.Compare(b.Failed+b.Conflicts+b.Drifted, a.Failed+a.Conflicts+a.Drifted))
		})
	}
	return out
}

func (r *fleetRule) add(s ruleState) {
	r.Clusters++
	r.Matched, r.Synced = r.Matched+int64(s.Matched), r.Synced+int64(s.Synced)
	r.Failed, r.Conflicts = r.Failed+int64(s.Failed), r.Conflicts+int64(s.Conflicts)
	r.Drifted += int64(s.Drifted)
	if s.Ready.Status == string(metav1.ConditionTrue) {
		r.Ready++
	}
	if s.Frozen {
		r.Frozen++
	}
	if s.Health != clusters.Healthy || s.Frozen {
		r.Bad = append(r.Bad, s)
	}
}

// answer is the exit code of a list to which every member has answered.
func (l *fleetList) answer() error {
	var unready, unseen []string
	for _, r := range l.Rules {
		switch {
		case len(r.Bad) == 0 || r.Bad[0].Health == clusters.Healthy:
		case r.Bad[0].Health == clusters.Unknown:
			unseen = append(unseen, r.Name+" in "+r.Bad[0].Cluster)
		default:
			unready = append(unready, r.Name+" in "+r.Bad[0].Cluster)
		}
	}
	switch {
	case len(unready) > 0:
		return cli.Answerf(cli.ExitBlocked, "not Ready: %s", cli.Brief(unready))
	case len(unseen) > 0:
		return cli.Answerf(cli.ExitUnknown, "not known to be Ready: %s", cli.Brief(unseen))
	}
	return nil
}

func (l *fleetList) print(out *cli.Output) error {
	names := make([]string, 0, len(l.Rules))
	for _, r := range l.Rules {
		names = append(names, r.Name)
	}
	if out.Names(ruleName, slices.Compact(names)) {
		return nil
	}
	if !out.ForPeople() {
		return out.Document(l)
	}
	count := func(n int64) string { return strconv.FormatInt(n, 10) }
	var rows, bad [][]string
	for _, r := range l.Rules {
		worst := ""
		for i, s := range r.Bad {
			if i == 0 {
				worst = s.Cluster + ": " + s.text()
			}
			bad = append(bad, []string{r.Name, s.Cluster, s.Ready.Status, count(int64(s.Matched)), count(int64(s.Synced)), count(int64(s.Failed)), count(int64(s.Conflicts)), count(int64(s.Drifted)), s.text()})
		}
		rows = append(rows, []string{
			r.Name, r.Kind, fmt.Sprintf("%d/%d", r.Clusters, l.Clusters), strconv.Itoa(r.Ready), fmt.Sprintf("%d/%d", r.Synced, r.Matched),
			strconv.Itoa(r.Frozen), count(r.Failed), count(r.Conflicts), worst,
		})
	}
	if err := cli.PrintTable(out.Stdout, []string{"RULE", "KIND", "CLUSTERS", "READY", "SYNCED", "FROZEN", "FAILED", "CONFLICTS", "WORST"}, rows); err != nil {
		return err
	}
	switch {
	case !out.Wide():
		if err := l.printBad(out); err != nil {
			return err
		}
	case len(bad) > 0:
		fmt.Fprintln(out.Stdout)
		if err := cli.PrintTable(out.Stdout, []string{"RULE", "CLUSTER", "READY", "MATCHED", "SYNCED", "FAILED", "CONFLICTS", "DRIFTED", "MESSAGE"}, bad); err != nil {
			return err
		}
	}
	fleet.Print(out, l.Unknown)
	return nil
}

// text is what is wrong, in a line.
func (s ruleState) text() string {
	switch {
	case s.Health != clusters.Healthy:
	case s.observes:
		return observed(s.Drifted)
	default:
		return "copies from a cluster stay as they are"
	}
	return s.Ready.Reason + ": " + s.Ready.Message
}
