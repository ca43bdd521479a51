// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	urfave "github.com/urfave/cli/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// The conditions that agents set on a rule.
const (
	conditionReady     = "Ready"
	conditionOrphans   = "Orphans"
	conditionNameClash = "NameClash"
)

func ruleResource() schema.GroupVersionResource {
	return v1alpha1.SchemeGroupVersion.WithResource("resourcesyncrules")
}

func rulesListCommand(g *globals) *urfave.Command {
	return &urfave.Command{
		Name:      "list",
		Usage:     "list the rules of a cluster with what its agent says of them",
		ArgsUsage: "[NAME...]",
		Description: `Shows all rules, or those named. SOURCES are the clusters that the agent reads for the rule; one
that it does not watch at the moment is followed by an exclamation mark: copies from there stay as
they are. ORPHANS says whether there are copies of the rule that nobody maintains any more; -o yaml
names them.

Exit code: 0 every rule shown is Ready, 5 one is not, 1 they cannot be read or a named one is missing.`,
		BashComplete: func(c *urfave.Context) { completeRules(c.Context, c, g) },
		Action: func(c *urfave.Context) error {
			s, err := openSide(g.Kubeconfig.String(), g.Context.String())
			if err != nil {
				return err
			}
			rules, err := s.rules(c.Context)
			if err != nil {
				return err
			}
			if rules, err = named(s, rules, c.Args().Slice()); err != nil {
				return err
			}
			return printRules(c, g.Output.String(), s, rules)
		},
	}
}

// rules lists the ResourceSyncRules, in name order.
func (s *side) rules(ctx context.Context) ([]*v1alpha1.ResourceSyncRule, error) {
	list, err := s.client.Resource(ruleResource()).List(ctx, metav1.ListOptions{})
	if err != nil {
		if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
			return nil, s.errorf("the ResourceSyncRule CRD is not installed; install the chart (charts/agent) there first")
		}
		return nil, s.errorf("list rules: %w", err)
	}
	out := make([]*v1alpha1.ResourceSyncRule, 0, len(list.Items))
	for i := range list.Items {
		var rule v1alpha1.ResourceSyncRule
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, &rule); err != nil {
			return nil, s.errorf("read rule %s: %w", list.Items[i].GetName(), err)
		}
		out = append(out, &rule)
	}
	slices.SortFunc(out, func(a, b *v1alpha1.ResourceSyncRule) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// named are the rules of these names; all for no names.
func named(s *side, rules []*v1alpha1.ResourceSyncRule, names []string) ([]*v1alpha1.ResourceSyncRule, error) {
	if len(names) == 0 {
		return rules, nil
	}
	var out []*v1alpha1.ResourceSyncRule
	for _, name := range names {
		i := slices.IndexFunc(rules, func(r *v1alpha1.ResourceSyncRule) bool { return r.Name == name })
		if i < 0 {
			return nil, s.errorf("no rule %q; `agentctl rules list` shows what there is", name)
		}
		out = append(out, rules[i])
	}
	return out, nil
}

// notLookedAt is the reason that no agent gave.
const notLookedAt = "NotLookedAt"

// readiness is what the agent says of a rule; Status is Unknown while it has not looked at the present spec.
type readiness struct {
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

func readinessOf(rule *v1alpha1.ResourceSyncRule) readiness {
	cond := meta.FindStatusCondition(rule.Status.Conditions, conditionReady)
	switch {
	case cond == nil:
		return readiness{Status: "Unknown", Reason: notLookedAt, Message: "no agent has looked at the rule yet; is the agent of this cluster running?"}
	case cond.ObservedGeneration != 0 && cond.ObservedGeneration < rule.Generation:
		return readiness{Status: "Unknown", Reason: notLookedAt, Message: "the agent has not looked at the last edit yet"}
	}
	return readiness{Status: string(cond.Status), Reason: cond.Reason, Message: oneLine(cond.Message)}
}

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

type ruleLine struct {
	Name       string       `json:"name"`
	Kind       string       `json:"kind"`
	Ready      readiness    `json:"ready"`
	Matched    int32        `json:"matched"`
	Synced     int32        `json:"synced"`
	Failed     int32        `json:"failed"`
	Conflicts  int32        `json:"conflicts"`
	Sources    []ruleSource `json:"sources"`
	Orphans    string       `json:"orphans,omitempty"` // what the agent says of copies that nobody maintains
	LastErrors []string     `json:"lastErrors"`
	Created    string       `json:"created,omitempty"` // RFC 3339

	created time.Time
}

func asRuleLine(rule *v1alpha1.ResourceSyncRule) ruleLine {
	st := rule.Status
	l := ruleLine{
		Name: rule.Name, Kind: kindText(rule.Spec.GVK.Schema().GroupKind()), Ready: readinessOf(rule),
		Matched: st.Matched, Synced: st.Synced, Failed: st.Failed, Conflicts: st.Conflicts,
		Sources: []ruleSource{}, LastErrors: append([]string{}, st.LastErrors...), created: rule.CreationTimestamp.Time,
	}
	if cond := meta.FindStatusCondition(st.Conditions, conditionOrphans); cond != nil && cond.Status == metav1.ConditionTrue {
		l.Orphans = oneLine(cond.Message)
	}
	if !l.created.IsZero() {
		l.Created = l.created.UTC().Format(time.RFC3339)
	}
	for _, src := range st.Sources {
		out := ruleSource{
			Cluster: src.Cluster, ClusterID: string(src.ClusterID), Watching: src.Watching,
			Matched: src.Matched, Synced: src.Synced, Failed: src.Failed, Message: oneLine(src.Message),
		}
		if src.Lag != nil {
			out.Lag = src.Lag.Duration.String()
		}
		l.Sources = append(l.Sources, out)
	}
	return l
}

func kindText(gk schema.GroupKind) string { return gk.String() }

func printRules(c *urfave.Context, format string, s *side, rules []*v1alpha1.ResourceSyncRule) error {
	lines, unready := make([]ruleLine, 0, len(rules)), []string{}
	for _, rule := range rules {
		l := asRuleLine(rule)
		lines = append(lines, l)
		if l.Ready.Status != string(metav1.ConditionTrue) {
			unready = append(unready, l.Name)
		}
	}
	if err := writeRules(c, format, s, lines); err != nil {
		return err
	}
	if len(unready) > 0 {
		return findingf(exitBlocked, "not ready: %s", strings.Join(unready, ", "))
	}
	return nil
}

func writeRules(c *urfave.Context, format string, s *side, lines []ruleLine) error {
	if format != "table" {
		return printDocument(c.App.Writer, format, lines)
	}
	if len(lines) == 0 {
		fmt.Fprintf(c.App.ErrWriter, "no rules in context %s: nothing is copied there\n", s.Context)
		return nil
	}
	rows := make([][]string, 0, len(lines))
	for _, l := range lines {
		sources, age := []string{}, ""
		for _, src := range l.Sources {
			name := src.Cluster
			if name == "" {
				name = src.ClusterID
			}
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
	return cli.PrintTable(printable{c.App.Writer}, header, rows)
}

// completionPatience is how long a shell may hang after the tab key.
const completionPatience = 2 * time.Second

// completeRules prints the names of the rules, for the shell; nothing where they cannot be read.
func completeRules(ctx context.Context, c *urfave.Context, g *globals) {
	ctx, cancel := context.WithTimeout(ctx, completionPatience)
	defer cancel()
	s, err := openSide(g.Kubeconfig.String(), g.Context.String())
	if err != nil {
		return
	}
	rules, err := s.rules(ctx)
	if err != nil {
		return
	}
	for _, rule := range rules {
		fmt.Fprintln(c.App.Writer, rule.Name)
	}
}
