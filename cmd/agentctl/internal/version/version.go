// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package version is the command version: the version of this program, and how far those of the agents are from it.
package version

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/Masterminds/semver/v3"
	urfave "github.com/urfave/cli/v2"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/versions"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// Build is what the linker sets in a build with make: the version, the commit and the commit's date.
type Build struct {
	Version string // "" for what the Go toolchain knows
	Commit  string
	Date    string
}

// guessTimeout bounds the question for agents that nobody asked for: without --context, the current one of the
// kubeconfig may lead nowhere, and the program's own version is no reason to wait.
const guessTimeout = 5 * time.Second

// report is what the command prints. Its JSON is stable: fields are only ever added.
type report struct {
	Version  string         `json:"version"`
	Commit   string         `json:"commit"`
	Date     string         `json:"date"`
	Go       string         `json:"go"`
	Platform string         `json:"platform"`
	Agents   []agentVersion `json:"agents,omitempty"`
	// Problems has a line for each pair of versions that are too far apart.
	Problems []string `json:"problems,omitempty"`
}

// agentVersion is the version of the agent of a cluster; Skew is how far agentctl is from it.
type agentVersion struct {
	Cluster string `json:"cluster"`
	Version string `json:"version"`
	Skew    string `json:"skew"`
}

// Command describes the command to the flag library.
func Command(g *cli.Globals, build Build) *urfave.Command {
	return &urfave.Command{
		Name:  "version",
		Usage: "print the version of this program, and of the group's agents where a context leads to them",
		Flags: []urfave.Flag{&urfave.BoolFlag{Name: "client", Usage: "ask no cluster: only the version of this program"}},
		Action: func(c *urfave.Context) error {
			if err := cli.NoArguments(c); err != nil {
				return err
			}
			return g.Run(c, &Options{Access: clusters.AccessOf(g), Named: g.Named(), ClientOnly: c.Bool("client"), Build: build})
		},
	}
}

// Options are whose versions are printed.
type Options struct {
	clusters.Access

	Named      bool // the user said which cluster is meant: that it cannot be asked is an error
	ClientOnly bool // ask no cluster
	Build      Build
}

// Validate finds nothing to refuse.
func (o *Options) Validate() error { return nil }

// Run prints the versions.
func (o *Options) Run(ctx context.Context, out *cli.Output) error {
	v := report{
		Version: o.Build.version(), Commit: o.Build.Commit, Date: o.Build.Date,
		Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	var unasked error
	if !o.ClientOnly {
		var members []*v1alpha1.Cluster
		members, unasked = o.agents(ctx)
		v.compare(members)
	}
	if err := v.print(out); err != nil {
		return err
	}
	if unasked != nil && !o.Named {
		fmt.Fprintf(out.Stderr, "the agents' versions are not known: %s\n", cli.OneLine(unasked.Error()))
		return nil
	}
	return unasked
}

func (o *Options) agents(ctx context.Context) ([]*v1alpha1.Cluster, error) {
	c, err := o.Open()
	if err != nil {
		return nil, err
	}
	if !o.Named {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, guessTimeout)
		defer cancel()
	}
	return c.Members(ctx)
}

// compare fills in the agents, and says which pairs are too far apart: each agent and this program, and the oldest
// and the newest agent.
func (v *report) compare(members []*v1alpha1.Cluster) {
	own := versions.Parse(v.Version)
	var oldest, newest *semver.Version
	var oldestName, newestName string
	for _, cluster := range members {
		at := versions.Parse(cluster.Status.AgentVersion)
		apart := versions.Skew(own, at)
		v.Agents = append(v.Agents, agentVersion{Cluster: cluster.Name, Version: cluster.Status.AgentVersion, Skew: apart})
		if apart == versions.SkewExceeded {
			v.Problems = append(v.Problems, fmt.Sprintf("agentctl %s and the agent of %s (%s) are more than one minor version apart: use agentctl %d.%d",
				own, cluster.Name, at, at.Major(), at.Minor()))
		}
		if at == nil {
			continue
		}
		if oldest == nil || at.LessThan(oldest) {
			oldest, oldestName = at, cluster.Name
		}
		if newest == nil || at.GreaterThan(newest) {
			newest, newestName = at, cluster.Name
		}
	}
	if versions.Skew(oldest, newest) == versions.SkewExceeded {
		v.Problems = append(v.Problems, fmt.Sprintf("the agents of %s (%s) and %s (%s) are more than one minor version apart: upgrade the agent of %s",
			oldestName, oldest, newestName, newest, oldestName))
	}
}

func (v *report) print(out *cli.Output) error {
	if !out.ForPeople() {
		return out.Document(v)
	}
	w := out.Stdout
	fmt.Fprintf(w, "agentctl %s (commit %s of %s, %s, %s)\n", v.Version, v.Commit, v.Date, v.Go, v.Platform)
	if len(v.Agents) == 0 {
		return nil
	}
	rows := make([][]string, 0, len(v.Agents))
	for _, a := range v.Agents {
		rows = append(rows, []string{a.Cluster, a.Version, a.Skew})
	}
	if err := cli.PrintTable(cli.Printable{To: w}, []string{"CLUSTER", "AGENT", "SKEW"}, rows); err != nil {
		return err
	}
	for _, problem := range v.Problems {
		fmt.Fprintln(w, problem)
	}
	return nil
}

func (b Build) version() string {
	if b.Version != "" {
		return b.Version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
