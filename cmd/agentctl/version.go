// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/Masterminds/semver/v3"
	urfave "github.com/urfave/cli/v2"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// What the linker sets in a build with make: the version, the commit and the commit's date. Without it the Go
// toolchain knows the version.
//
//nolint:gochecknoglobals // the linker sets nothing else
var (
	version string
	commit  = "unknown"
	date    = "unknown"
)

// How far two versions are apart. One minor version is supported, and with it any patch of both: docs/release.md.
const (
	skewNone      = "none"      // the same minor version
	skewSupported = "supported" // one minor version apart
	skewExceeded  = "exceeded"  // more than one, or another major version
	skewUnknown   = "unknown"   // one of them does not say a version, such as an agent that was built by hand
)

// guessTimeout bounds the question for agents that nobody asked for: without --context, the current one of the
// kubeconfig may lead nowhere, and the program's own version is no reason to wait.
const guessTimeout = 5 * time.Second

// versions is what agentctl version prints.
type versions struct {
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

func versionCommand(g *globals) *urfave.Command {
	return &urfave.Command{
		Name:  "version",
		Usage: "print the version of this program, and of the group's agents where a context leads to them",
		Flags: []urfave.Flag{&urfave.BoolFlag{Name: "client", Usage: "ask no cluster: only the version of this program"}},
		Action: func(c *urfave.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			v := versions{
				Version: versionText(), Commit: commit, Date: date,
				Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
			}
			var unasked error
			if !c.Bool("client") {
				var clusters []*v1alpha1.Cluster
				clusters, unasked = agents(c.Context, g)
				v.compare(clusters)
			}
			if err := v.print(c.App.Writer, g.Output.String()); err != nil {
				return err
			}
			if unasked != nil && !g.Named() {
				fmt.Fprintf(c.App.ErrWriter, "the agents' versions are not known: %s\n", oneLine(unasked.Error()))
				return nil
			}
			return unasked
		},
	}
}

func agents(ctx context.Context, g *globals) ([]*v1alpha1.Cluster, error) {
	s, err := openSide(g.Kubeconfig.String(), g.Context.String())
	if err != nil {
		return nil, err
	}
	if !g.Named() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, guessTimeout)
		defer cancel()
	}
	return s.typedClusters(ctx)
}

// compare fills in the agents, and says which pairs are too far apart: each agent and this program, and the oldest
// and the newest agent.
func (v *versions) compare(clusters []*v1alpha1.Cluster) {
	own := parseVersion(v.Version)
	var oldest, newest *semver.Version
	var oldestName, newestName string
	for _, cluster := range clusters {
		at := parseVersion(cluster.Status.AgentVersion)
		apart := skew(own, at)
		v.Agents = append(v.Agents, agentVersion{Cluster: cluster.Name, Version: cluster.Status.AgentVersion, Skew: apart})
		if apart == skewExceeded {
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
	if skew(oldest, newest) == skewExceeded {
		v.Problems = append(v.Problems, fmt.Sprintf("the agents of %s (%s) and %s (%s) are more than one minor version apart: upgrade the agent of %s",
			oldestName, oldest, newestName, newest, oldestName))
	}
}

func skew(a, b *semver.Version) string {
	switch {
	case a == nil || b == nil:
		return skewUnknown
	case a.Major() != b.Major() || max(a.Minor(), b.Minor())-min(a.Minor(), b.Minor()) > 1:
		return skewExceeded
	case a.Minor() != b.Minor():
		return skewSupported
	default:
		return skewNone
	}
}

// parseVersion is nil for what is not a version.
func parseVersion(text string) *semver.Version {
	v, err := semver.StrictNewVersion(text)
	if err != nil {
		return nil
	}
	return v
}

func (v *versions) print(w io.Writer, format string) error {
	if format != "table" {
		return printDocument(w, format, v)
	}
	fmt.Fprintf(w, "agentctl %s (commit %s of %s, %s, %s)\n", v.Version, v.Commit, v.Date, v.Go, v.Platform)
	if len(v.Agents) == 0 {
		return nil
	}
	rows := make([][]string, 0, len(v.Agents))
	for _, a := range v.Agents {
		rows = append(rows, []string{a.Cluster, a.Version, a.Skew})
	}
	if err := printTable(printable{w}, []string{"CLUSTER", "AGENT", "SKEW"}, rows); err != nil {
		return err
	}
	for _, problem := range v.Problems {
		fmt.Fprintln(w, problem)
	}
	return nil
}

func versionText() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
