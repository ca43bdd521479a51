// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bundle is the command bundle: one file with what a person who helps needs to see of a group.
//
//	collect  asks one member
//	pods     the pods of Roster there, with their logs and metrics, through the API server
//	archive  the parts of the file, compressed as they come, and bounded
//	index    what is in the file, and what is not and why
//
// No Secret is read but the credentials that lead to members, which go into no file. What is kept of other objects is a list of
// fields, or for the registry's own kinds the whole object. Whatever looks like a key or a token is taken out of every file all the same:
// logs are what somebody wrote.
package bundle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	urfave "github.com/urfave/cli/v2"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/documents"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/fleet"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/live"
)

// Command describes the command to the flag library.
func Command(g *cli.Globals, uses Uses) *urfave.Command {
	file := &cli.Value{}
	return &urfave.Command{
		Name:  "bundle",
		Usage: "collect what a person who helps needs to see of the group, in one file",
		Description: `Writes a .tgz file with what every member of the group says: its Clusters, ResourceSyncRules and ClusterFeatures,
the events about them, the pods of Roster with the ends of their logs and their metrics, and its versions; and what
doctor and version find. No Secret's data is in it. index.json, the first file in it, tells what could not be
collected, and why.

Members are asked by the --contexts that lead to them, else with the credentials that this cluster holds, if you may
read those Secrets. Such a credential does not read pods and events.

  agentctl bundle -o roster.tgz
  agentctl bundle -o roster.tgz --contexts cluster-2,cluster-3

Read the file before you give it to anybody: names of clusters, namespaces and objects, and addresses, are in it.

Exit code: 0 everything is in the file; 6 the file is there and lacks something; 1 it cannot be written.`,
		Flags: []urfave.Flag{
			&urfave.GenericFlag{Name: "output", Aliases: []string{"o"}, Value: file, Usage: "`FILE` to write, such as roster.tgz"},
			&urfave.BoolFlag{Name: "force", Usage: "replace the file if there is one"},
			&urfave.StringFlag{Name: "contexts", Usage: "`CONTEXTS` of your own, separated by commas, by which the members that they lead to are asked"},
			&urfave.DurationFlag{Name: "timeout", Value: time.Minute, Usage: "when to stop, with what there is by then"},
			fleet.NetworkFlag(),
		},
		Action: func(c *urfave.Context) error {
			if err := cli.NoArguments(c); err != nil {
				return err
			}
			o := &Options{
				Group:     &fleet.Group{Access: clusters.AccessOf(g), Network: c.String("network-name"), Timeout: c.Duration("timeout")},
				Uses:      uses,
				Namespace: g.Namespace.String(), File: file.String(), Force: c.Bool("force"),
			}
			if c.IsSet("contexts") {
				o.Contexts = strings.Split(c.String("contexts"), ",")
			}
			live.Silence() // what the client libraries would say is in the index
			return g.Run(c, o)
		},
	}
}

// Uses is what the file has of other commands. They do not know each other: who makes the table of commands joins them.
type Uses struct {
	// Doctor is the document of doctor about the cluster of o and those of its contexts.
	Doctor func(ctx context.Context, o *Options) ([]byte, error)
	// Version is the document of version about the cluster of o.
	Version func(ctx context.Context, o *Options) ([]byte, error)
}

// Options are what is collected, and where it is written.
type Options struct {
	*fleet.Group
	Uses

	Namespace string // of the agents
	File      string
	Force     bool // replace it
}

// Validate checks what can be checked without a cluster.
func (o *Options) Validate() error {
	if o.File == "" {
		return cli.Usagef("give the file to write: agentctl bundle -o roster.tgz")
	}
	if err := cli.CheckTimeout(o.Timeout); err != nil {
		return err
	}
	return o.Group.Validate()
}

// Formats says that there is no document to print.
func (o *Options) Formats() []string { return []string{"table"} }

// Run collects and writes the file, and returns an AnswerError when it lacks something.
func (o *Options) Run(ctx context.Context, out *cli.Output) error {
	if err := o.free(); err != nil {
		return err
	}
	alone, err := o.Alone()
	if err != nil {
		return err
	}
	began := time.Now()
	c := &collector{namespace: o.Namespace, timeout: o.Timeout, asking: map[string]bool{}}
	stop := c.tell(out.Stderr)
	own := c.others(ctx, o)
	answers, err := fleet.Ask(ctx, o.Group, c.ask)
	lost := err
	if err != nil && ctx.Err() == nil && cli.ExitCode(err) != cli.ExitUsage {
		// An agent that never came up is what a person needs help with.
		bounded, cancel := context.WithTimeout(ctx, o.Timeout)
		value, err := c.ask(bounded, alone)
		cancel()
		answers = []fleet.Answer[*member]{{Member: *alone, Value: value, Err: err}}
	}
	documents := own()
	stop()
	if ctx.Err() != nil {
		return errors.New("interrupted; no file was written")
	}
	if answers == nil {
		return lost
	}
	x := &index{Began: began.UTC().Format(time.RFC3339), Context: alone.Client.Context, Namespace: o.Namespace}
	if lost != nil {
		x.miss("", "the other members", lost)
	}
	archive, err := x.pack(documents, answers)
	if err != nil {
		return err
	}
	if err := o.write(archive); err != nil {
		return err
	}
	x.print(out, o.File, archive)
	return x.answer()
}

// free returns an error when there is a file that is not to be replaced.
func (o *Options) free() error {
	_, err := os.Lstat(o.File)
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && o.Force:
		return nil
	case err == nil:
		return fmt.Errorf("%s is there already; --force replaces it", o.File)
	}
	return err
}

func (o *Options) write(archive [][]byte) error {
	if err := o.free(); err != nil { // it may have come meanwhile
		return err
	}
	return documents.Write(o.File, archive...)
}

// others asks the other commands meanwhile, and returns what waits for their documents.
func (c *collector) others(ctx context.Context, o *Options) func() []document {
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	all := []document{{name: "doctor", ask: o.Doctor}, {name: "version", ask: o.Version}}
	results := make(chan int, len(all))
	for i := range all {
		d := &all[i]
		c.begin(d.name)
		go func() {
			defer c.end(d.name)
			d.data, d.err = d.ask(ctx, o)
			results <- i
		}()
	}
	return func() []document {
		defer cancel()
		for range all {
			<-results // each of them ends with ctx
		}
		return all
	}
}

// document is what another command says.
type document struct {
	name string
	ask  func(context.Context, *Options) ([]byte, error)
	data []byte
	err  error
}

// tell says who is still asked, every two seconds.
func (c *collector) tell(w io.Writer) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(2 * time.Second)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				if names := c.names(); len(names) > 0 {
					fmt.Fprintf(w, "still asking: %s\n", cli.Brief(names))
				}
			case <-done:
				return
			}
		}
	}()
	return func() { close(done); <-ended }
}
