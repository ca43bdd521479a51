// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	urfave "github.com/urfave/cli/v2"
	"k8s.io/client-go/rest"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

const (
	// maxMembers is how many members are asked at a time, each over one connection.
	maxMembers = 32
	// maxDecoding is how many answers are decoded at a time, which takes many times their bytes.
	maxDecoding = 2
	// MaxAnswer bounds one answer, in bytes. Lists are read in pages, so that an honest member stays far below.
	MaxAnswer = 8 << 20
)

// Group is whose members are asked, and how they are reached.
type Group struct {
	clusters.Access // of the caller's own cluster

	Contexts []string          // of the same kubeconfig: whatever members they lead to are reached by them
	Named    map[string]string // the same by the names of the members
	Network  string            // that the caller is in, which chooses among the addresses of a member
	Timeout  time.Duration     // of all of it
}

// Flags describes what Of reads to the flag library.
func Flags() []urfave.Flag {
	return []urfave.Flag{
		&urfave.BoolFlag{Name: "fleet", Usage: "ask every member of the group, with the credentials that this cluster holds if you may read them"},
		&urfave.StringFlag{Name: "contexts", Usage: "with --fleet: `CONTEXTS` of your own, separated by commas, by which the members that they lead to are asked"},
		&urfave.DurationFlag{Name: "fleet-timeout", Value: 30 * time.Second, Usage: "with --fleet: when to stop; who has not answered by then is unknown"},
	}
}

// NetworkFlag says where the caller is.
func NetworkFlag() urfave.Flag {
	return &urfave.StringFlag{Name: "network-name", Value: "default", Usage: "`NAME` of the network that this computer is in, which chooses among the addresses of a cluster"}
}

// Of is what the flags say: nil without --fleet.
func Of(c *urfave.Context, at clusters.Access) (*Group, error) {
	if !c.Bool("fleet") {
		for _, name := range []string{"contexts", "fleet-timeout"} {
			if c.IsSet(name) {
				return nil, cli.Usagef("--%s is of no use without --fleet", name)
			}
		}
		return nil, nil
	}
	g := &Group{Access: at, Network: c.String("network-name"), Timeout: c.Duration("fleet-timeout")}
	if c.IsSet("contexts") {
		g.Contexts = strings.Split(c.String("contexts"), ",")
	}
	return g, g.Validate()
}

// Validate checks what can be checked without a cluster.
func (g *Group) Validate() error {
	if slices.Contains(g.Contexts, "") {
		return cli.Usagef("--contexts has an empty part: %q", strings.Join(g.Contexts, ","))
	}
	if g.Timeout <= 0 {
		return cli.Usagef("--fleet-timeout must be more than 0, and is %s", g.Timeout)
	}
	return nil
}

// Member is one member of the group.
type Member struct {
	Name, ID string
	Local    bool              // the caller's own cluster
	Cluster  *v1alpha1.Cluster // what the own cluster has of it; nil for a context that leads to none of the members
	Client   *clusters.Client
	Own      bool // it is reached with a credential of the caller's own, which may be allowed to write
	Certain  bool // the caller says which member that is: the own cluster, or one of Named; else only the server says so

	decoding chan struct{}
	config   *rest.Config // that leads there; nil for the own cluster
}

// Objects is Client for lists of objects of any kind, which take more than MaxAnswer.
func (m *Member) Objects() (*clusters.Client, error) {
	if m.config == nil {
		return m.Client, nil
	}
	return clusters.New(m.Client.Context, clusters.Bounded(m.config, clusters.MaxAnswer))
}

// Answer is what a member says, or why it is not known.
type Answer[T any] struct {
	Member

	Value T
	Err   error
}

// Ask asks every member, and returns the answers: of the own cluster first, then by name. An error is about the own cluster, or
// the command line. The question ends with its context.
func Ask[T any](ctx context.Context, g *Group, question func(context.Context, *Member) (T, error)) ([]Answer[T], error) {
	whole, cancel := context.WithTimeout(ctx, g.Timeout)
	defer cancel()
	ways, err := g.find(whole)
	if err != nil {
		return nil, err
	}
	answers := gather(whole, g.Timeout, ways, func(ctx context.Context, w *way) (T, error) {
		var none T
		if err := g.open(ctx, w); err != nil {
			return none, err
		}
		if !w.Local {
			defer w.Client.Close()
		}
		return question(ctx, &w.Member)
	})
	if ctx.Err() != nil {
		return nil, errors.New("interrupted")
	}
	return answers, nil
}

// gather asks at most maxMembers at a time, until the context ends. It does not wait for a question that goes on after that, as
// one may whose credential is a plugin's.
func gather[T any](ctx context.Context, timeout time.Duration, ways []*way, ask func(context.Context, *way) (T, error)) []Answer[T] {
	type result struct {
		at int
		Answer[T]
	}
	out, results := make([]Answer[T], len(ways)), make(chan result, len(ways))
	next := make(chan int, len(ways))
	for i, w := range ways {
		next <- i
		late := fmt.Errorf("it has not answered within %s", timeout)
		out[i] = Answer[T]{Member: Member{Name: w.Name, ID: w.ID, Local: w.Local, Cluster: w.Cluster}, Err: late}
	}
	close(next)
	for range min(maxMembers, len(ways)) {
		go func() {
			for i := range next {
				if ctx.Err() != nil {
					return
				}
				value, err := ask(ctx, ways[i])
				results <- result{i, Answer[T]{ways[i].Member, value, err}}
			}
		}()
	}
	for range ways {
		select {
		case r := <-results:
			if r.Err == nil || ctx.Err() == nil {
				out[r.at] = r.Answer
			}
		case <-ctx.Done():
			for range len(results) { // what came in time
				if r := <-results; r.Err == nil {
					out[r.at] = r.Answer
				}
			}
			return out
		}
	}
	return out
}

// Unknown is a member that could not be asked. Its JSON is stable.
type Unknown struct {
	Cluster   string `json:"cluster"`
	ClusterID string `json:"clusterID,omitempty"`
	Reason    string `json:"reason"`
}

// Unknowns are those without an answer.
func Unknowns[T any](answers []Answer[T]) []Unknown {
	out := []Unknown{}
	for i := range answers {
		if a := &answers[i]; a.Err != nil {
			out = append(out, Unknown{a.Name, a.ID, clusters.Reason(a.Err)})
		}
	}
	return out
}

// Print tells who could not be asked, a line for each.
func Print(out *cli.Output, unknown []Unknown) {
	for _, u := range unknown {
		fmt.Fprintf(cli.Printable{To: out.Stdout}, "unknown: cluster %s: %s\n", u.Cluster, u.Reason)
	}
}

// Incomplete is the error of an answer that is not about the whole group; nil if it is.
func Incomplete(unknown []Unknown) error {
	if len(unknown) == 0 {
		return nil
	}
	names := make([]string, 0, len(unknown))
	for _, u := range unknown {
		names = append(names, u.Cluster)
	}
	return cli.Answerf(cli.ExitUnknown, "%s of the group could not be asked: %s", cli.Plural(len(unknown), "cluster"), cli.Brief(names))
}
