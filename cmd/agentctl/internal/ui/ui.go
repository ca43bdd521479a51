// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ui is the command ui: a page in the browser that shows the group as the clusters of some contexts see it, and
// follows it. It reads API servers with the caller's own kubeconfig, so it works while agents are down.
//
//	door    who is let in: one browser, by a link that is printed once
//	others  who is let in where others reach the page: whoever may read what it shows (package visitors)
//	board   watches the clusters, and makes a view.Model of what they hold, at most once a second
//	sheet   the model as HTML in pieces, of which a browser gets those that changed
//	why     the answer of rules explain as a page
//
// Names and messages come from other clusters. html/template escapes them; render makes what is not printable visible.
package ui

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	urfave "github.com/urfave/cli/v2"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/live"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/ui/view"
)

// Command describes the command to the flag library.
func Command(g *cli.Globals, uses Uses) *urfave.Command {
	return &urfave.Command{
		Name:  "ui",
		Usage: "show the group on a page in the browser, live",
		Description: `Serves a page on this machine alone, until interrupted, and prints its link. The page shows the clusters
and the rules as the agent of the cluster of --context has written them, and follows every change. It is
read from the API servers with your own kubeconfig: an agent may be down, and your rights are yours alone.
At an address that others reach, as in a pod, it is served by TLS: each of them shows a token of the cluster,
and sees the page who may read what it shows.
With --contexts it also shows how other clusters see each other and their rules.

The link opens the page in one browser, once: what is in it is worth nothing afterwards. Nothing is
written to a cluster, and the page asks nothing of any other server.

  agentctl ui
  agentctl ui --context cluster-1 --contexts cluster-2,cluster-3

Exit code: 0 when interrupted; 2 a wrong command line; 1 it cannot be served.`,
		Flags: []urfave.Flag{
			&urfave.StringFlag{Name: "contexts", Usage: "`CONTEXTS` of other clusters of the group to watch too, separated by commas"},
			&urfave.StringFlag{Name: "listen", Value: "127.0.0.1:0", Usage: "`ADDRESS` of this machine to serve the page at; port 0 takes a free one. One that others reach needs the flags below, and they sign in"},
			&urfave.StringFlag{Name: "tls-cert-file", Usage: "`FILE` with the certificate for others; read again when it changes"},
			&urfave.StringFlag{Name: "tls-private-key-file", Usage: "`FILE` with its private key"},
		},
		Action: func(c *urfave.Context) error {
			if err := cli.NoArguments(c); err != nil {
				return err
			}
			o := &Options{
				Access: clusters.AccessOf(g), Uses: uses, Namespace: g.Namespace.String(), Listen: c.String("listen"),
				CertFile: c.String("tls-cert-file"), KeyFile: c.String("tls-private-key-file"),
			}
			if c.IsSet("contexts") {
				o.Contexts = strings.Split(c.String("contexts"), ",")
			}
			live.Silence()
			return g.Run(c, o)
		},
	}
}

// Uses is what the page takes from other commands. They do not know each other: who makes the table of commands joins them.
type Uses struct {
	// Findings are what is wrong by what agents have written, with the commands that fix it, the worst first.
	Findings func(ctx context.Context, namespace string, all []view.Held) []view.Finding
	// Explain answers a question with the document of rules explain.
	Explain func(ctx context.Context, q Question) (document []byte, err error)
}

// Options are what the page shows, and where it is served.
type Options struct {
	clusters.Access // of the cluster whose view is shown
	Uses

	Contexts  []string // of the same kubeconfig: other clusters to watch
	Namespace string   // of the agents
	Listen    string   // host:port of this machine

	CertFile, KeyFile string // what the page is served with to others
}

// Validate checks what can be checked without a cluster.
func (o *Options) Validate() error {
	if slices.Contains(o.Contexts, "") {
		return cli.Usagef("--contexts has an empty part: %q", strings.Join(o.Contexts, ","))
	}
	if _, _, err := net.SplitHostPort(o.Listen); err != nil {
		return cli.Usagef("--listen must be HOST:PORT, and is %q", o.Listen)
	}
	return o.validateOthers()
}

// Formats says that there is no document to print.
func (o *Options) Formats() []string { return []string{"table"} }

// Run serves the page until ctx ends.
func (o *Options) Run(ctx context.Context, out *cli.Output) error {
	b, err := o.open(ctx)
	if err != nil {
		return err
	}
	defer b.stop()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", o.Listen)
	if err != nil {
		return fmt.Errorf("serve the page: %w; choose another --listen", err)
	}
	server := &http.Server{
		ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 32 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx }, // streams end with the command
	}
	if o.forOthers() {
		if listener, err = o.invite(server, b, listener, out); err != nil {
			return err
		}
	} else {
		p := newPress()
		d := newDoor(listener.Addr().String(), p)
		server.Handler = d.guard(pages(o, b, p, d.path))
		fmt.Fprintf(out.Stdout, "The page of context %s is at\n\n  %s\n\nThe link opens it in one browser, once. ctrl-C ends it.\n", b.points[0].client.Context, d.link())
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err = <-ended:
	case <-ctx.Done():
		// Of what is still open, nothing is worth waiting for.
		err = errors.Join(server.Close(), <-ended)
	}
	if err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the page: %w", err)
	}
	return nil
}

// open connects to the clusters, and starts to watch them.
func (o *Options) open(ctx context.Context) (*board, error) {
	var all []*clusters.Client
	for _, name := range slices.Concat([]string{o.Context}, o.Contexts) {
		c, err := o.To(name).Open()
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(all, func(other *clusters.Client) bool { return other.Context == c.Context }) {
			return nil, cli.Usagef("--contexts: %s is shown already", c.Context)
		}
		all = append(all, c)
	}
	return newBoard(ctx, all, func(held []view.Held) []view.Finding { return o.Findings(ctx, o.Namespace, held) })
}
