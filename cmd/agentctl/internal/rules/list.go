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
	"time"

	urfave "github.com/urfave/cli/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/fleet"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

func listCommand(g *cli.Globals) *urfave.Command {
	return &urfave.Command{
		Name:      "list",
		Usage:     "list the rules of a cluster, or of the group, with what the agents say of them",
		ArgsUsage: "[NAME...]",
		Description: `Shows all rules, or those named. SOURCES are the clusters that the agent reads for the rule; one
that it does not watch at the moment is followed by an exclamation mark: copies from there stay as
they are. ORPHANS says whether there are copies of the rule that nobody maintains any more; -o yaml
names them. -o wide adds a line for each source.

--fleet asks every member of the group what its own agent says. CLUSTERS is how many of the members have the
rule, READY in how many it is Ready, FROZEN in how many copies stay as they are, at least those from one
cluster; SYNCED, FAILED and CONFLICTS are the copies of all of them. Below is a line for each cluster where
something is wrong, with the command that helps; the first 20, the worst first. -o wide has a line for each of them
with its numbers. Members are asked by the --contexts that lead to them, else with the credentials that this
cluster holds, if you may read those Secrets. Who could not be asked is unknown.

Exit code: 0 every rule shown is Ready, 5 one is not, 1 they cannot be read or a named one is missing. With
--fleet also 6, which comes first: not every member could be asked, or no agent has looked at a rule yet.`,
		Flags: append(fleet.Flags(), fleet.NetworkFlag()),
		Action: func(c *urfave.Context) error {
			group, err := fleet.Of(c, clusters.AccessOf(g))
			if err != nil {
				return err
			}
			if group != nil {
				return g.Run(c, &FleetOptions{Group: group, Rules: c.Args().Slice()})
			}
			return g.Run(c, &ListOptions{Access: clusters.AccessOf(g), Rules: c.Args().Slice()})
		},
	}
}

// ListOptions are which rules are listed.
type ListOptions struct {
	clusters.Access

	Rules []string // names; none for all
}

// Validate finds nothing to refuse.
func (o *ListOptions) Validate() error { return nil }

// Formats are what --output may be.
func (o *ListOptions) Formats() []string { return cli.ListFormats() }

// Run prints the rules, and returns an AnswerError unless all are Ready.
func (o *ListOptions) Run(ctx context.Context, out *cli.Output) error {
	c, err := o.Open()
	if err != nil {
		return err
	}
	rules, err := c.Rules(ctx)
	if err != nil {
		return err
	}
	if rules, err = named(c, rules, o.Rules); err != nil {
		return err
	}
	lines, unready, unseen := make([]ruleLine, 0, len(rules)), []string{}, []string{}
	for _, rule := range rules {
		l := asRuleLine(rule)
		lines = append(lines, l)
		switch {
		case l.Ready.Status == string(metav1.ConditionTrue):
		case l.Ready.Reason == clusters.NotLookedAt:
			unseen = append(unseen, l.Name)
		default:
			unready = append(unready, l.Name)
		}
	}
	if err := printRules(out, c, lines); err != nil {
		return err
	}
	return answer(unready, unseen)
}

// answer is the exit code.
func answer(unready, unseen []string) error {
	var parts []string
	if len(unready) > 0 {
		parts = append(parts, "not Ready: "+strings.Join(unready, ", "))
	}
	if len(unseen) > 0 {
		parts = append(parts, "not looked at by the agent yet: "+strings.Join(unseen, ", "))
	}
	if len(parts) == 0 {
		return nil
	}
	return cli.Answerf(cli.ExitBlocked, "%s", strings.Join(parts, "; "))
}

// named are the rules of these names; all for no names.
func named(c *clusters.Client, rules []*v1alpha1.ResourceSyncRule, names []string) ([]*v1alpha1.ResourceSyncRule, error) {
	if len(names) == 0 {
		return rules, nil
	}
	var out []*v1alpha1.ResourceSyncRule
	for _, name := range names {
		i := slices.IndexFunc(rules, func(r *v1alpha1.ResourceSyncRule) bool { return r.Name == name })
		if i < 0 {
			return nil, c.Errorf("no rule %q; `agentctl rules list` shows what there is", name)
		}
		out = append(out, rules[i])
	}
	return out, nil
}

// ruleSource is a cluster that the agent reads for a rule. Its JSON is stable: fields are only ever added.
type ruleSource struct {
	Cluster   string `json:"cluster"`
	ClusterID string `json:"clusterID"`
	Watching  bool   `json:"watching"`
	Matched   int32  `json:"matched"`
	Synced    int32  `json:"synced"`
	Failed    int32  `json:"failed"`
	Lag       string `json:"lag,omitempty"`
	Message   string `json:"message,omitempty"`
}

// ruleLine is one rule. Its JSON is stable: fields are only ever added.
type ruleLine struct {
	Name       string             `json:"name"`
	Kind       string             `json:"kind"`
	Ready      clusters.Readiness `json:"ready"`
	Matched    int32              `json:"matched"`
	Synced     int32              `json:"synced"`
	Failed     int32              `json:"failed"`
	Conflicts  int32              `json:"conflicts"`
	Drifted    int32              `json:"drifted,omitempty"` // of a rule with mode Observe
	Sources    []ruleSource       `json:"sources"`
	Orphans    string             `json:"orphans,omitempty"` // what the agent says of copies that nobody maintains
	LastErrors []string           `json:"lastErrors"`
	Created    string             `json:"created,omitempty"` // RFC 3339

	created time.Time
}

func asRuleLine(rule *v1alpha1.ResourceSyncRule) ruleLine {
	st := rule.Status
	l := ruleLine{
		Name: rule.Name, Kind: rule.Spec.GVK.Schema().GroupKind().String(), Ready: clusters.ReadinessOf(rule),
		Matched: st.Matched, Synced: st.Synced, Failed: st.Failed, Conflicts: st.Conflicts, Drifted: st.Drifted,
		Sources: []ruleSource{}, Orphans: clusters.OrphansOf(rule), LastErrors: append([]string{}, st.LastErrors...), created: rule.CreationTimestamp.Time,
	}
	if !l.created.IsZero() {
		l.Created = l.created.UTC().Format(time.RFC3339)
	}
	for _, src := range st.Sources {
		out := ruleSource{
			Cluster: src.Cluster, ClusterID: string(src.ClusterID), Watching: src.Watching,
			Matched: src.Matched, Synced: src.Synced, Failed: src.Failed, Message: cli.OneLine(src.Message),
		}
		if src.Lag != nil {
			out.Lag = src.Lag.Duration.String()
		}
		l.Sources = append(l.Sources, out)
	}
	return l
}

// ruleName is what -o name puts before the name of a rule.
const ruleName = "resourcesyncrule." + v1alpha1.GroupName

func printRules(out *cli.Output, c *clusters.Client, lines []ruleLine) error {
	names := make([]string, 0, len(lines))
	for _, l := range lines {
		names = append(names, l.Name)
	}
	if out.Names(ruleName, names) {
		return nil
	}
	if !out.ForPeople() {
		return out.Document(lines)
	}
	if len(lines) == 0 {
		fmt.Fprintf(out.Stderr, "no rules in context %s: nothing is copied there\n", c.Context)
		return nil
	}
	rows := make([][]string, 0, len(lines))
	for _, l := range lines {
		sources, age := []string{}, ""
		for _, src := range l.Sources {
			name := cmp.Or(src.Cluster, src.ClusterID)
			if !src.Watching {
				name += "!"
			}
			sources = append(sources, name)
		}
		if !l.created.IsZero() {
			age = duration.HumanDuration(time.Since(l.created))
		}
		count := func(n int32) string { return strconv.Itoa(int(n)) }
		message := ""
		if l.Ready.Status != string(metav1.ConditionTrue) {
			message = l.Ready.Reason + ": " + l.Ready.Message
		}
		if l.Drifted > 0 {
			message = observed(l.Drifted)
		}
		orphans := "no"
		if l.Orphans != "" {
			orphans = "yes"
		}
		rows = append(rows, []string{
			l.Name, l.Kind, l.Ready.Status, count(l.Matched), count(l.Synced), count(l.Failed), count(l.Conflicts),
			orphans, strings.Join(sources, ","), age, message,
		})
	}
	header := []string{"NAME", "KIND", "READY", "MATCHED", "SYNCED", "FAILED", "CONFLICTS", "ORPHANS", "SOURCES", "AGE", "MESSAGE"}
	if err := cli.PrintTable(out.Stdout, header, rows); err != nil || !out.Wide() {
		return err
	}
	return printSources(out, lines)
}

// observed is what a rule with mode Observe has found, in a line.
func observed(drifted int32) string {
	if drifted == 0 {
		return "only observes: all objects are as the rule would have them"
	}
	return fmt.Sprintf("only observes: %d objects are not as the rule would have them", drifted)
}

// printSources prints a line for each cluster that a rule is read from.
func printSources(out *cli.Output, lines []ruleLine) error {
	var rows [][]string
	for _, l := range lines {
		for _, src := range l.Sources {
			rows = append(rows, []string{
				l.Name, cmp.Or(src.Cluster, src.ClusterID), strconv.FormatBool(src.Watching), strconv.Itoa(int(src.Matched)),
				strconv.Itoa(int(src.Synced)), strconv.Itoa(int(src.Failed)), src.Lag, src.Message,
			})
		}
	}
	if len(rows) == 0 {
		return nil
	}
	fmt.Fprintln(out.Stdout)
	return cli.PrintTable(out.Stdout, []string{"RULE", "SOURCE", "WATCHED", "MATCHED", "SYNCED", "FAILED", "LAG", "MESSAGE"}, rows)
}
