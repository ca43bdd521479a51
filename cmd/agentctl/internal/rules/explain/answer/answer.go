// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package answer is what rules explain prints.
package answer

import (
	"fmt"
	"io"
	"strings"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/rules/explain/ref"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/rules/explain/stand"
	"github.com/roster-mesh/roster/syncrules"
)

// Report is what explain prints. Its JSON is stable: fields are only ever added.
type Report struct {
	Context   string `json:"context"`
	Cluster   string `json:"cluster"`
	ClusterID string `json:"clusterID"`
	// Answer is synced, unmatched, blocked or unknown; the exit code says the same.
	Answer  string         `json:"answer"`
	Rules   []*Rule        `json:"rules"`
	Object  *Object        `json:"object,omitempty"`
	Copies  []*Copy        `json:"copies"`
	Counts  map[string]int `json:"counts"` // of copies by state, also of those that are not in copies
	Unknown []Unknown      `json:"unknown"`
	Notes   []string       `json:"notes"`
}

// Unknown is a cluster that could not be asked.
type Unknown struct {
	Cluster string `json:"cluster"`
	Reason  string `json:"reason"`
}

// Rule is about one rule: the one that was asked for, or one about the kind of the object.
type Rule struct {
	Name       string              `json:"name"`
	File       string              `json:"file,omitempty"`
	Generation int64               `json:"generation,omitempty"`
	Kind       string              `json:"kind"`
	Error      string              `json:"error,omitempty"`
	Ready      *clusters.Readiness `json:"ready,omitempty"` // absent for one from a file
	Orphans    string              `json:"orphans,omitempty"`
	LastErrors []string            `json:"lastErrors,omitempty"`
	Targets    []Cluster           `json:"targets,omitempty"`
	Sources    []Cluster           `json:"sources,omitempty"`
	Objects    []Selected          `json:"objects,omitempty"`
}

// Cluster says whether a rule goes to, or comes from, a cluster.
type Cluster struct {
	Cluster  string `json:"cluster"`
	Verdict  string `json:"verdict"` // yes, no, held or unknown
	Reason   string `json:"reason,omitempty"`
	Selected *int   `json:"selected,omitempty"` // objects there; absent when they were not looked at
}

// Selected says whether a rule selects an object of a cluster.
type Selected struct {
	Cluster     string                `json:"cluster"`
	Object      ref.Object            `json:"object"`
	Explanation syncrules.Explanation `json:"explanation"`
}

// Object says where the object is that was asked for.
type Object struct {
	ref.Object `json:",inline"`
	File       string     `json:"file,omitempty"`
	Where      []Presence `json:"where"`
}

// Presence says what of the object a cluster has: a source, a copy, nothing, or unknown.
type Presence struct {
	Cluster string `json:"cluster"`
	Is      string `json:"is"`
	Text    string `json:"text"`
}

// Copy is about one place in one cluster.
type Copy struct {
	Cluster   string     `json:"cluster"`
	ClusterID string     `json:"clusterID"`
	Object    ref.Object `json:"object"`
	Rules     []string   `json:"rules"`
	State     string     `json:"state"`
	Action    string     `json:"action,omitempty"` // what an agent would do
	Reason    string     `json:"reason,omitempty"`
	Owner     string     `json:"owner,omitempty"`
	OwnerID   string     `json:"ownerID,omitempty"`
	Rivals    []string   `json:"rivals,omitempty"`
	Observed  string     `json:"observed,omitempty"` // what rules with mode Observe would do
	Diff      string     `json:"diff,omitempty"`
	DiffBy    string     `json:"diffBy,omitempty"`
	DiffNote  string     `json:"diffNote,omitempty"`
}

// The answers, each with its exit code.
const (
	Synced    = "synced"
	Unmatched = "unmatched"
	Blocked   = "blocked"
	NotKnown  = "unknown"
)

// Conclude finds the answer: what is in the way comes first, then what is in sync; what is not known counts only
// where nothing else does.
func (r *Report) Conclude() {
	switch {
	case r.Counts[stand.Blocked] > 0:
		r.Answer = Blocked
	case r.Counts[stand.InSync]+r.Counts[stand.Pending]+r.Counts[stand.Offered]+r.Counts[stand.Observed] > 0:
		r.Answer = Synced
	case r.Counts[stand.Unknown] > 0 || len(r.Unknown) > 0:
		r.Answer = NotKnown
	default:
		r.Answer = Unmatched
	}
	for _, rule := range r.Rules {
		if rule.Error != "" && r.Answer != Synced {
			r.Answer = Blocked
		}
	}
}

// Err is the exit code.
func (r *Report) Err() error {
	switch r.Answer {
	case Unmatched:
		return cli.Answerf(cli.ExitUnmatched, "nothing is copied: no rule selects anything")
	case Blocked:
		return cli.Answerf(cli.ExitBlocked, "a copy is blocked")
	case NotKnown:
		return cli.Answerf(cli.ExitUnknown, "unknown: a cluster that matters cannot be read")
	}
	return nil
}

// Print prints it for people.
func (r *Report) Print(w io.Writer) {
	if r.Object != nil {
		r.Object.print(w)
	}
	for _, rule := range r.Rules {
		rule.print(w)
	}
	for _, c := range r.Copies {
		c.print(w)
	}
	if total := r.Counts[stand.InSync] + r.Counts[stand.Pending] + r.Counts[stand.Gone] + r.Counts[stand.Blocked] + r.Counts[stand.Unknown]; total > 0 {
		fmt.Fprintf(w, "\ncopies: %d in sync, %d to be written, %d whose source is gone, %d blocked, %d not known\n", r.Counts[stand.InSync],
			r.Counts[stand.Pending], r.Counts[stand.Gone], r.Counts[stand.Blocked], r.Counts[stand.Unknown])
	}
	if n := r.Counts[stand.Observed]; n > 0 {
		fmt.Fprintf(w, "\nonly observed: %s\n", cli.Plural(n, "place"))
	}
	for _, b := range r.Unknown {
		fmt.Fprintf(w, "not known: cluster %s: %s\n", b.Cluster, b.Reason)
	}
	for _, note := range r.Notes {
		fmt.Fprintf(w, "note: %s\n", note)
	}
}

func (o *Object) print(w io.Writer) {
	fmt.Fprintf(w, "%s\n", o.Object)
	for _, p := range o.Where {
		fmt.Fprintf(w, "  in %s: %s\n", p.Cluster, p.Text)
	}
}

func (r *Rule) print(w io.Writer) {
	fmt.Fprintf(w, "\nrule %s", r.Name)
	if r.File != "" {
		fmt.Fprintf(w, " (from %s)", r.File)
	}
	fmt.Fprintf(w, ", about %s\n", r.Kind)
	if r.Error != "" {
		fmt.Fprintf(w, "  cannot be used: %s\n", r.Error)
	}
	if r.Ready != nil {
		fmt.Fprintf(w, "  the agent here says: Ready=%s (%s): %s\n", r.Ready.Status, r.Ready.Reason, r.Ready.Message)
	}
	if r.Orphans != "" {
		fmt.Fprintf(w, "  orphans: %s\n", r.Orphans)
	}
	for _, text := range r.LastErrors {
		fmt.Fprintf(w, "  last error: %s\n", cli.OneLine(text))
	}
	for _, of := range []struct {
		word string
		list []Cluster
	}{{"to", r.Targets}, {"from", r.Sources}} {
		for _, v := range of.list {
			fmt.Fprintf(w, "  %-4s %s: %s%s\n", of.word, v.Cluster, v.Verdict, v.tail())
		}
	}
	for _, o := range r.Objects {
		o.print(w)
	}
}

func (v Cluster) tail() string {
	out := ""
	if v.Selected != nil {
		out = ", selects " + cli.Plural(*v.Selected, "object") + " there"
	}
	if v.Reason != "" {
		out += ": " + v.Reason
	}
	return out
}

// print shows what matched, or else every field that did not.
func (o Selected) print(w io.Writer) {
	word := "does not select"
	if o.Explanation.Matched {
		word = "selects"
	}
	fmt.Fprintf(w, "  %s %s in %s\n", word, o.Object, o.Cluster)
	if len(o.Explanation.Clauses) == 0 {
		fmt.Fprintln(w, "    spec.rules: is empty")
	}
	for _, c := range o.Explanation.Clauses {
		if c.Matched && len(c.Entries) == 0 {
			fmt.Fprintf(w, "    %s: has no match and selects everything\n", c.Path)
		}
		for _, e := range c.Entries {
			if e.Matched {
				fmt.Fprintf(w, "    %s: selects it\n", e.Path)
			}
			for _, f := range e.Fields {
				if !e.Matched && !f.Matched {
					fmt.Fprintf(w, "    %s\n", f.String())
				}
			}
		}
	}
}

func (c *Copy) print(w io.Writer) {
	words := map[string]string{
		stand.InSync: "in sync", stand.Blocked: "blocked", stand.Unknown: "not known", stand.None: "no copy", stand.Observed: "nothing is written",
		stand.Pending: "would be updated", stand.Gone: "would be deleted",
	}
	if c.Action == syncrules.Create.String() {
		words[stand.Pending] = "would be created"
	}
	if c.Action == syncrules.MarkOrphan.String() {
		words[stand.Gone] = "would become an orphan"
	}
	fmt.Fprintf(w, "\n%s in %s: %s", c.Object, c.Cluster, words[c.State])
	if c.Reason != "" {
		fmt.Fprintf(w, ": %s", c.Reason)
	}
	fmt.Fprintln(w)
	if c.Owner != "" {
		fmt.Fprintf(w, "  owner: %s, clusterID %s\n", c.Owner, c.OwnerID)
	}
	if len(c.Rules) > 0 {
		fmt.Fprintf(w, "  by rule %s\n", strings.Join(c.Rules, ", "))
	}
	if c.Observed != "" {
		fmt.Fprintf(w, "  %s\n", c.Observed)
	}
	if len(c.Rivals) > 0 {
		fmt.Fprintf(w, "  offered with other content by: %s\n", strings.Join(c.Rivals, ", "))
	}
	if c.DiffNote != "" {
		fmt.Fprintf(w, "  %s\n", c.DiffNote)
	}
	for line := range strings.Lines(c.Diff) {
		fmt.Fprintf(w, "  %s", line)
	}
}
