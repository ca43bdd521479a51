// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package doctor is the command doctor: it looks at clusters from outside of their agents, and says what is wrong and which
// command fixes it.
//
// Each check is one function, in the table of checks. It looks at the targets, whose common parts are read once before,
// and returns findings.
package doctor

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

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// Command describes the command to the flag library.
func Command(g *cli.Globals) *urfave.Command {
	return &urfave.Command{
		Name:  "doctor",
		Usage: "look for what is wrong with a cluster of the group, and say which command fixes it",
		Description: `Looks at the cluster of --context, and at that of each --peer-context, from outside of the agents; in a
pod, without a kubeconfig, at the pod's own cluster. Each finding has a severity, one line, and the command
that fixes it. What could not be reached or read is a finding too, with the severity unknown. Nothing is
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
			if err := cli.NoArguments(c); err != nil {
				return err
			}
			return g.Run(c, &Options{
				Access: clusters.AccessOf(g), Namespace: g.Namespace.String(),
				PeerContexts: c.StringSlice("peer-context"), Skip: c.StringSlice("skip"), ServiceAccount: c.String("service-account"),
				StuckAfter: c.Duration("stuck-after"), Timeout: c.Duration("timeout"),
			})
		},
	}
}

// Options are what doctor looks at.
type Options struct {
	clusters.Access // of the cluster that is looked at first

	PeerContexts   []string // of the same kubeconfig: other clusters to look at
	Skip           []string // names of checks
	Namespace      string   // of the agents
	ServiceAccount string   // of the agents
	StuckAfter     time.Duration
	Timeout        time.Duration
}

// Validate checks what can be checked without a cluster.
func (o *Options) Validate() error {
	if err := cli.CheckTimeout(o.Timeout); err != nil {
		return err
	}
	for _, name := range o.Skip {
		if !slices.Contains(checkNames(), name) {
			return cli.Usagef("--skip: there is no check %q; there are %s", name, strings.Join(checkNames(), ", "))
		}
	}
	return nil
}

// Run looks, prints what it found, and returns an AnswerError unless that is nothing.
func (o *Options) Run(ctx context.Context, out *cli.Output) error {
	x, err := o.open()
	if err != nil {
		return err
	}
	r, err := x.run(ctx, out.Stderr)
	if err != nil {
		return err
	}
	if out.ForPeople() {
		err = r.print(out.Stdout)
	} else {
		err = out.Document(r)
	}
	if err != nil {
		return err
	}
	return r.answer()
}

// open connects to the clusters.
func (o *Options) open() (*inspection, error) {
	x := &inspection{namespace: o.Namespace, account: o.ServiceAccount, stuckAfter: o.StuckAfter, timeout: o.Timeout}
	for _, one := range checks() {
		if !slices.Contains(o.Skip, one.name) {
			x.checks = append(x.checks, one)
		}
	}
	for _, name := range slices.Concat([]string{o.Context}, o.PeerContexts) {
		c, err := o.To(name).Open()
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(x.targets, func(t *target) bool { return t.client.Context == c.Context }) {
			return nil, cli.Usagef("--peer-context %s: that cluster is looked at already", c.Context)
		}
		x.targets = append(x.targets, &target{client: c})
	}
	return x, nil
}

// Severity of a Finding; the worse, the smaller.
type Severity string

const (
	Error   Severity = "error"   // something does not work
	Warning Severity = "warning" // something will not, or may not be meant
	Unknown Severity = "unknown" // it could not be found out
)

func (s Severity) rank() int { return slices.Index([]Severity{Error, Warning, Unknown}, s) }

// Finding is one finding. Its JSON is stable: fields are only ever added.
type Finding struct {
	Check    string   `json:"check"`
	Severity Severity `json:"severity"`
	Cluster  string   `json:"cluster"` // that must be fixed; the context's name where it is not known
	Message  string   `json:"message"`
	Fix      string   `json:"fix,omitempty"`    // a command line
	Reason   string   `json:"reason,omitempty"` // of the rule's condition
}

// check is one thing that is looked at. It returns by itself when its context ends.
type check struct {
	name string
	run  func(ctx context.Context, x *inspection) []Finding
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
		{"exports", checkExports},
	}
}

func checkNames() []string {
	var out []string
	for _, c := range checks() {
		out = append(out, c.name)
	}
	return out
}

// inspection is what the checks look at, and how. They run at the same time and change nothing of it.
type inspection struct {
	targets    []*target // that of --context first
	namespace  string    // of the agents
	account    string
	stuckAfter time.Duration
	timeout    time.Duration
	checks     []check
}

// progressAfter is how long a person waits without a word.
const progressAfter = 2 * time.Second

// run runs the checks, all at the same time. One that does not end in time is a finding itself.
func (x *inspection) run(whole context.Context, progressTo io.Writer) (*Report, error) {
	ctx, cancel := context.WithTimeout(whole, x.timeout)
	defer cancel()
	type result struct {
		check string
		found []Finding
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
	out := &Report{Findings: []Finding{}}
	for _, one := range x.checks {
		out.Checks = append(out.Checks, one.name)
	}
	left := slices.Clone(out.Checks)
	for len(left) > 0 {
		select {
		case r := <-results:
			left = slices.DeleteFunc(left, func(name string) bool { return name == r.check })
			for _, d := range r.found {
				d.Check, d.Message = r.check, cli.OneLine(d.Message)
				out.Findings = append(out.Findings, d)
			}
		case <-progress.C:
			fmt.Fprintf(progressTo, "still looking at: %s\n", strings.Join(left, ", "))
		case <-ctx.Done():
			if whole.Err() != nil {
				return nil, errors.New("interrupted")
			}
			for _, name := range left {
				out.Findings = append(out.Findings, Finding{
					Check: name, Severity: Unknown, Cluster: x.targets[0].client.Context,
					Message: fmt.Sprintf("not found out within %s; give a longer --timeout", x.timeout),
				})
			}
			left = nil
		}
	}
	out.complete(x)
	return out, nil
}

// Report are all that was found.
type Report struct {
	Contexts []string         `json:"contexts"`
	Checks   []string         `json:"checks"`
	Counts   map[Severity]int `json:"counts"`
	Findings []Finding        `json:"findings"` // the worst first
}

func (r *Report) complete(x *inspection) {
	for _, t := range x.targets {
		r.Contexts = append(r.Contexts, t.client.Context)
	}
	r.Counts = map[Severity]int{Error: 0, Warning: 0, Unknown: 0}
	for _, d := range r.Findings {
		r.Counts[d.Severity]++
	}
	slices.SortStableFunc(r.Findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Severity.rank(), b.Severity.rank()), slices.Index(r.Checks, a.Check)-slices.Index(r.Checks, b.Check),
			cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Message, b.Message))
	})
}

// answer is the exit code.
func (r *Report) answer() error {
	text := fmt.Sprintf("%d errors, %d warnings, %d unknown", r.Counts[Error], r.Counts[Warning], r.Counts[Unknown])
	switch {
	case r.Counts[Error] > 0:
		return cli.Answerf(cli.ExitBlocked, "%s", text)
	case r.Counts[Warning] > 0:
		return cli.Answerf(cli.ExitUnmatched, "%s", text)
	case r.Counts[Unknown] > 0:
		return cli.Answerf(cli.ExitUnknown, "%s", text)
	}
	return nil
}

// print writes the findings for people.
func (r *Report) print(w io.Writer) error {
	w = cli.Printable{To: w}
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
