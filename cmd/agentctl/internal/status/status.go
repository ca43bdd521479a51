// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package status is the commands status, members and clusters: three views of what the agent of one cluster has written
// about its group.
package status

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	urfave "github.com/urfave/cli/v2"
	"golang.org/x/term"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/fleet"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/live"
)

// Command describes the command to the flag library.
func Command(g *cli.Globals) *urfave.Command {
	return &urfave.Command{
		Name:  "status",
		Usage: "show the group on one screen: members, lag, rules with problems",
		Description: `Shows what the agent of one cluster has written about the group: each member with the state of its
agent in the mesh and how long the last change took from there (LAG), the rules that are not Ready, and
this cluster's own problems. What nobody wrote yet is unknown, not fine. An agent that is dead cannot say
so: agentctl doctor looks from outside.

--watch keeps it live until it is interrupted: in place on a terminal, else a line for each change; with
-o json one document per line, with -o yaml documents after ---.

--fleet shows a line for every member instead, by what its own agent has written: how many clusters it has in
its list, its rules and copies, and what is worst there; -o wide adds a line for each problem. Members are asked
by the --contexts that lead to them, else with the credentials that this cluster holds, if you may read those
Secrets. Who could not be asked is unknown.

--wait healthy waits until nothing is wrong here and everything is known, as after an installation or an upgrade.

Exit code: 0 healthy; 5 there are problems; 6 nothing worse than that something is not known, or settles
by itself; 3 with --wait: not healthy in time; 1 it cannot be read. With --watch, that of what was shown last.
With --fleet 6 comes first if not every member could be asked.`,
		Flags: append(fleet.Flags(), fleet.NetworkFlag(),
			&urfave.BoolFlag{Name: "watch", Aliases: []string{"w"}, Usage: "show changes until interrupted"},
			&urfave.StringFlag{Name: "wait", Usage: "wait until the group is in this `STATE`, which can be healthy"},
			&urfave.DurationFlag{Name: "timeout", Value: 5 * time.Minute, Usage: "with --wait: how long to wait"}),
		Action: func(c *urfave.Context) error {
			if err := cli.NoArguments(c); err != nil {
				return err
			}
			group, err := fleet.Of(c, clusters.AccessOf(g))
			switch {
			case err != nil:
				return err
			case group != nil && (c.Bool("watch") || c.IsSet("wait")):
				return cli.Usagef("--fleet goes neither with --watch nor with --wait")
			case c.IsSet("timeout") && !c.IsSet("wait"):
				return cli.Usagef("--timeout is of no use without --wait")
			case group != nil:
				return g.Run(c, &FleetOptions{group})
			}
			o := &Options{Access: clusters.AccessOf(g), Watch: c.Bool("watch"), Timeout: c.Duration("timeout")}
			if o.Wait = c.IsSet("wait"); o.Wait && c.String("wait") != clusters.Healthy.String() {
				return cli.Usagef("--wait %q: what can be waited for is %s", c.String("wait"), clusters.Healthy)
			}
			if o.Watch || o.Wait {
				live.Silence()
			}
			return g.Run(c, o)
		},
	}
}

// Options are whose view of the group is shown.
type Options struct {
	clusters.Access

	Watch   bool // until the context ends
	Wait    bool // until it is healthy
	Timeout time.Duration
}

// Validate checks what can be checked without a cluster.
func (o *Options) Validate() error {
	if o.Wait && o.Watch {
		return cli.Usagef("--wait and --watch do not go together")
	}
	if o.Wait {
		return cli.CheckTimeout(o.Timeout)
	}
	return nil
}

// Run shows the group, and returns an AnswerError unless it is healthy.
func (o *Options) Run(ctx context.Context, out *cli.Output) error {
	c, err := o.Open()
	if err != nil {
		return err
	}
	v, err := read(ctx, c)
	if err != nil {
		return err
	}
	var late error
	if o.Wait {
		if v, late, err = waitHealthy(ctx, c, v, out, o.Timeout); err != nil {
			return err
		}
	}
	switch {
	case o.Watch:
		show, tick := presenter(out)
		v, err = watchStatus(ctx, c, v, show, tick)
	case out.ForPeople():
		err = printStatus(out.Stdout, v, time.Now(), false)
	default:
		err = out.Document(v)
	}
	if err := cmp.Or(err, late); err != nil {
		return err
	}
	return v.answer()
}

// read reads what status shows, once.
func read(ctx context.Context, c *clusters.Client) (groupView, error) {
	members, err := c.Clusters(ctx)
	if err != nil {
		return groupView{}, err
	}
	rules, err := c.Rules(ctx)
	if err != nil {
		return groupView{}, err
	}
	return viewOf(c.Context, members, rules), nil
}

// answer is the exit code.
func (v groupView) answer() error {
	switch v.Health {
	case clusters.Unhealthy:
		return cli.Answerf(cli.ExitBlocked, "unhealthy: %s", cli.First(v.Problems))
	case clusters.Unknown:
		return cli.Answerf(cli.ExitUnknown, "not known to be healthy: %s", cli.First(v.Problems))
	case clusters.Healthy:
	}
	return nil
}

// printStatus prints a view; with brief, of the healthy members only the one that the agent is in.
func printStatus(w io.Writer, v groupView, now time.Time, brief bool) error {
	w = cli.Printable{To: w}
	healthy, left := 0, 0
	rows := make([][]string, 0, len(v.Members))
	for _, m := range v.Members {
		if m.Health == clusters.Healthy {
			healthy++
			if brief && m.ClusterID != v.ClusterID {
				left++
				continue
			}
		}
		rows = append(rows, []string{m.Name, m.Type, m.State, ago(m.since, now), m.Status, m.Synced, m.Lag, m.Version, m.Message})
	}
	name := v.Cluster
	if name == "" {
		name = "context " + v.Context
	}
	n := v.Rules
	fmt.Fprintf(w, "%s: %s\nclusters: %d, %d healthy; rules: %d, %d ready; copies: %d of %d synced, %d failed, %d conflicts\n\n",
		name, v.Health, len(v.Members), healthy, n.Total, n.Ready, n.Synced, n.Matched, n.Failed, n.Conflicts)
	if err := cli.PrintTable(w, []string{"CLUSTER", "TYPE", "MEMBER", "SINCE", "STATUS", "SYNCED", "LAG", "VERSION", "MESSAGE"}, rows); err != nil {
		return err
	}
	if left > 0 {
		fmt.Fprintf(w, "and %d more that are healthy\n", left)
	}
	if len(v.Unready) == 0 {
		return nil
	}
	rows = rows[:0]
	for _, r := range v.Unready {
		rows = append(rows, []string{r.Name, r.Kind, r.Ready.Status, ago(r.since, now), r.Ready.Reason + ": " + r.Ready.Message})
	}
	fmt.Fprintln(w)
	return cli.PrintTable(w, []string{"RULE", "KIND", "READY", "SINCE", "MESSAGE"}, rows)
}

func ago(since, now time.Time) string {
	if since.IsZero() {
		return ""
	}
	return duration.HumanDuration(now.Sub(since))
}

// presenter is how changes are shown, and how often what is shown grows old by itself: only a terminal
// shows ages.
func presenter(out *cli.Output) (show func(groupView) error, tick time.Duration) {
	w := out.Stdout
	switch {
	case out.Format == "json" || out.Format == "yaml":
		return documents(w, out.Format), 0
	case !out.ForPeople():
		return func(v groupView) error { return out.Document(v) }, 0
	}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return func(v groupView) error {
			width, height, err := term.GetSize(int(f.Fd()))
			if err != nil {
				width, height = 80, 24
			}
			return redraw(w, v, time.Now(), width, height)
		}, 5 * time.Second
	}
	return follow(w), 0
}

// statusLines are those of a view beside members and rules.
const statusLines = 6

// redraw shows a view from the upper left corner on, over what was there.
func redraw(w io.Writer, v groupView, now time.Time, width, height int) error {
	var text strings.Builder
	// Of a group that is larger than the screen, what is healthy is not what anybody looks for.
	if err := printStatus(&text, v, now, len(v.Members)+len(v.Unready)+statusLines >= height); err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n")
	if len(lines) >= height && height > 1 {
		lines = append(lines[:height-2], "… "+strconv.Itoa(len(lines)-height+2)+" more lines")
	}
	var out strings.Builder
	out.WriteString("\x1b[H")
	for _, line := range lines {
		if runes := []rune(line); len(runes) > width {
			line = string(runes[:max(width-1, 0)]) + "…"
		}
		out.WriteString(line + "\x1b[K\n")
	}
	out.WriteString("\x1b[J")
	_, err := io.WriteString(w, out.String())
	return err
}
