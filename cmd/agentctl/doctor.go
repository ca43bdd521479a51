// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	urfave "github.com/urfave/cli/v2"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

func doctorCommand(g *globals) *urfave.Command {
	return &urfave.Command{
		Name:  "doctor",
		Usage: "look for what is wrong with a cluster of the group, and say which command mends it",
		Description: `Looks at the cluster of --context, and at that of each --peer-context, from outside of the agents; in a
pod, without a kubeconfig, at the pod's own cluster. Each finding has a severity, one line, and the command
that mends it. What could not be reached or read is a finding too, with the severity unknown. Nothing is
written; the mesh port of each member is dialled from here, as far as to see its key.

Checks: ` + strings.Join(checkNames(), ", ") + `.

Exit code: 0 nothing found; 4 warnings; 5 errors; 6 nothing worse than unknown; 2 wrong command line.`,
		Flags: []urfave.Flag{
			&urfave.StringSliceFlag{Name: "peer-context", Usage: "`CONTEXT` of another cluster of the group to look at too; may be repeated"},
			&urfave.StringSliceFlag{Name: "skip", Usage: "`CHECK` to leave out; may be repeated"},
			&urfave.StringFlag{Name: "service-account", Value: v1alpha1.DefaultServiceAccount, Usage: "`NAME` of the agents' ServiceAccount"},
			&urfave.DurationFlag{Name: "stuck-after", Value: 10 * time.Minute, Usage: "how long a rule may not be Ready"},
			&urfave.DurationFlag{Name: "timeout", Value: 30 * time.Second, Usage: "when to stop, with what is not known by then"},
		},
		Action: func(c *urfave.Context) error {
			x, err := newExamination(c, g)
			if err != nil {
				return err
			}
			r, err := x.examine(c.Context, c.App.ErrWriter)
			if err != nil {
				return err
			}
			if g.output.text != "table" {
				err = printDocument(c.App.Writer, g.output.text, r)
			} else {
				err = printDiagnoses(c.App.Writer, r)
			}
			if err != nil {
				return err
			}
			return r.verdict()
		},
	}
}

// severity of a diagnosis; the worse, the smaller.
type severity string

const (
	isError   severity = "error"   // something does not work
	isWarning severity = "warning" // something will not, or may not be meant
	isUnknown severity = "unknown" // it could not be found out
)

func (s severity) rank() int { return slices.Index([]severity{isError, isWarning, isUnknown}, s) }

// diagnosis is one finding. Its JSON is stable: fields are only ever added.
type diagnosis struct {
	Check    string   `json:"check"`
	Severity severity `json:"severity"`
	Cluster  string   `json:"cluster"` // that must be mended; the context's name where it is not known
	Message  string   `json:"message"`
	Fix      string   `json:"fix,omitempty"` // a command line
}

// check is one thing that is looked at. It returns by itself when its context ends.
type check struct {
	name string
	run  func(ctx context.Context, x *examination) []diagnosis
}

func checks() []check {
	return []check{
		{"api", checkAPI},
		{"crds", checkCRDs},
		{"rbac", checkRBAC},
		{"mesh", checkMesh},
		{"members", checkMembers},
		{"clock", checkClock},
		{"versions", checkVersions},
		{"rules", checkRules},
		{"orphans", checkOrphans},
		{"restore", checkRestore},
		{"credentials", checkCredentials},
	}
}

func checkNames() []string {
	var out []string
	for _, c := range checks() {
		out = append(out, c.name)
	}
	return out
}

// examination is what the checks look at. They run at the same time and change nothing of it.
type examination struct {
	patients   []*patient // that of --context first
	namespace  string     // of the agents
	account    string
	stuckAfter time.Duration
	timeout    time.Duration
	checks     []check
}

func newExamination(c *urfave.Context, g *globals) (*examination, error) {
	if err := noArguments(c); err != nil {
		return nil, err
	}
	x := &examination{
		namespace: g.namespace.text, account: c.String("service-account"),
		stuckAfter: c.Duration("stuck-after"), timeout: c.Duration("timeout"),
	}
	if x.timeout <= 0 {
		return nil, usagef("--timeout must be more than 0")
	}
	for _, name := range c.StringSlice("skip") {
		if !slices.Contains(checkNames(), name) {
			return nil, usagef("--skip: there is no check %q; there are %s", name, strings.Join(checkNames(), ", "))
		}
	}
	for _, one := range checks() {
		if !slices.Contains(c.StringSlice("skip"), one.name) {
			x.checks = append(x.checks, one)
		}
	}
	for _, name := range append([]string{g.context.text}, c.StringSlice("peer-context")...) {
		s, err := openSide(g.kubeconfig.text, name)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(x.patients, func(p *patient) bool { return p.side.Context == s.Context }) {
			return nil, usagef("--peer-context %s: that cluster is looked at already", s.Context)
		}
		x.patients = append(x.patients, &patient{side: s})
	}
	return x, nil
}

// progressAfter is how long a person waits without a word.
const progressAfter = 2 * time.Second

// examine runs the checks, all at the same time. One that does not end in time is a finding itself.
func (x *examination) examine(whole context.Context, progressTo io.Writer) (*diagnoses, error) {
	ctx, cancel := context.WithTimeout(whole, x.timeout)
	defer cancel()
	type result struct {
		check string
		found []diagnosis
	}
	results := make(chan result, len(x.checks))
	go func() { // what each of them needs is read once, first
		x.read(ctx)
		for _, one := range x.checks {
			go func() { results <- result{one.name, one.run(ctx, x)} }()
		}
	}()
	progress := time.NewTicker(progressAfter)
	defer progress.Stop()
	out := &diagnoses{Findings: []diagnosis{}}
	for _, one := range x.checks {
		out.Checks = append(out.Checks, one.name)
	}
	left := slices.Clone(out.Checks)
	for len(left) > 0 {
		select {
		case r := <-results:
			left = slices.DeleteFunc(left, func(name string) bool { return name == r.check })
			for _, d := range r.found {
				d.Check, d.Message = r.check, oneLine(d.Message)
				out.Findings = append(out.Findings, d)
			}
		case <-progress.C:
			fmt.Fprintf(progressTo, "still looking at: %s\n", strings.Join(left, ", "))
		case <-ctx.Done():
			if whole.Err() != nil {
				return nil, errors.New("interrupted")
			}
			for _, name := range left {
				out.Findings = append(out.Findings, diagnosis{
					Check: name, Severity: isUnknown, Cluster: x.patients[0].side.Context,
					Message: fmt.Sprintf("not found out within %s; give a longer --timeout", x.timeout),
				})
			}
			left = nil
		}
	}
	out.complete(x)
	return out, nil
}

// diagnoses are all that was found.
type diagnoses struct {
	Contexts []string         `json:"contexts"`
	Checks   []string         `json:"checks"`
	Counts   map[severity]int `json:"counts"`
	Findings []diagnosis      `json:"findings"` // the worst first
}

func (r *diagnoses) complete(x *examination) {
	for _, p := range x.patients {
		r.Contexts = append(r.Contexts, p.side.Context)
	}
	r.Counts = map[severity]int{isError: 0, isWarning: 0, isUnknown: 0}
	for _, d := range r.Findings {
		r.Counts[d.Severity]++
	}
	slices.SortStableFunc(r.Findings, func(a, b diagnosis) int {
		return cmp.Or(cmp.Compare(a.Severity.rank(), b.Severity.rank()), slices.Index(r.Checks, a.Check)-slices.Index(r.Checks, b.Check),
			cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Message, b.Message))
	})
}

// verdict is the exit code.
func (r *diagnoses) verdict() error {
	text := fmt.Sprintf("%d errors, %d warnings, %d unknown", r.Counts[isError], r.Counts[isWarning], r.Counts[isUnknown])
	switch {
	case r.Counts[isError] > 0:
		return finding{exitBlocked, text}
	case r.Counts[isWarning] > 0:
		return finding{exitUnmatched, text}
	case r.Counts[isUnknown] > 0:
		return finding{exitUnknown, text}
	}
	return nil
}

func printDiagnoses(w io.Writer, r *diagnoses) error {
	w = printable{w}
	for _, d := range r.Findings {
		fmt.Fprintf(w, "%-8s %s, %s: %s\n", d.Severity, d.Check, d.Cluster, d.Message)
		if d.Fix != "" {
			fmt.Fprintf(w, "         %s\n", d.Fix)
		}
	}
	summary := "nothing found"
	if len(r.Findings) > 0 {
		summary = fmt.Sprintf("%d found", len(r.Findings))
	}
	_, err := fmt.Fprintf(w, "%d checks of %s: %s\n", len(r.Checks), strings.Join(r.Contexts, ", "), summary)
	return err
}
