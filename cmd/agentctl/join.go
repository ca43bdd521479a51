// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"time"

	urfave "github.com/urfave/cli/v2"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func joinCommand(g *globals) *urfave.Command {
	return &urfave.Command{
		Name:  "join",
		Usage: "make two clusters members of one group",
		Description: `Hands each of the two clusters the other's Cluster object and the Secret with its read-only
credential, which is all that a person does by hand otherwise, and waits until both say that
they are synced. A newcomer joins any one member of a group; the others hear of it by themselves.
With --replace-key a cluster that is a member now gives up that membership first, which takes --yes.
With --dry-run nothing is written; -o yaml then prints the objects, credentials included.`,
		Flags: []urfave.Flag{
			&urfave.StringFlag{Name: "peer-context", Usage: "`CONTEXT` that leads to the other cluster"},
			&urfave.StringFlag{Name: "peer-kubeconfig", Usage: "kubeconfig `FILE` of the other cluster, when it is another file"},
			&urfave.BoolFlag{Name: "dry-run", Usage: "say what would be written, and write nothing"},
			&urfave.BoolFlag{Name: "replace-key", Usage: "give the cluster of --context a new key first: its own was removed from the group, or is lost"},
			&urfave.BoolFlag{Name: "yes", Usage: "with --replace-key: also when the key is in use, and its membership ends with it"},
			&urfave.DurationFlag{Name: "timeout", Value: time.Minute, Usage: "how long to wait until both clusters are synced"},
		},
		Action: func(c *urfave.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			o := joinOptions{
				kubeconfig: g.Kubeconfig.String(), context: g.Context.String(), namespace: g.Namespace.String(), output: g.Output.String(),
				peerKubeconfig: c.String("peer-kubeconfig"), peerContext: c.String("peer-context"),
				dryRun: c.Bool("dry-run"), replaceKey: c.Bool("replace-key"), yes: c.Bool("yes"), timeout: c.Duration("timeout"),
			}
			return o.run(c.Context, c.App.Writer, c.App.ErrWriter)
		},
	}
}

type joinOptions struct {
	kubeconfig, context, peerKubeconfig, peerContext string
	namespace, output                                string
	dryRun, replaceKey, yes                          bool
	timeout                                          time.Duration
}

func (o joinOptions) run(ctx context.Context, stdout, stderr io.Writer) error {
	start := time.Now()
	progress := newProgress(stdout, stderr, o.output, start)
	a, b, err := o.open()
	if err != nil {
		return err
	}
	if o.yes && !o.replaceKey {
		return usagef("--yes is of no use without --replace-key")
	}
	if o.replaceKey {
		if o.dryRun {
			return usagef("--replace-key and --dry-run do not go together: what would be swapped has the key that is not made yet")
		}
		if !o.yes {
			if err := a.unused(ctx); err != nil {
				return err
			}
		}
		end := endOptions{side: a, output: o.output, timeout: o.timeout, stdout: stdout, stderr: stderr}
		if err := end.replaceKey(ctx, b, progress); err != nil {
			return err
		}
	}
	halves, pastes, err := o.prepareSwap(ctx, a, b)
	if err != nil {
		return err
	}
	progress("joining cluster %s (context %s) and cluster %s (context %s)", halves[0].name(), a.Context, halves[1].name(), b.Context)
	if o.dryRun {
		return printDryRun(stdout, o.output, pastes)
	}
	for _, p := range pastes {
		err := p.apply(ctx, func(verb string, obj *unstructured.Unstructured) {
			progress("context %s: %s %s", p.to.Context, describe(obj), verb)
		})
		if err != nil {
			return err
		}
	}
	if err := awaitSynced(ctx, halves, pastes, o.timeout, progress); err != nil {
		return err
	}
	progress("joined: clusters %s and %s are synced", halves[0].name(), halves[1].name())
	return printJoined(stdout, o.output, halves, time.Since(start))
}

func (o joinOptions) open() (a, b *side, err error) {
	if o.peerContext == "" && o.peerKubeconfig == "" {
		return nil, nil, usagef("join needs --peer-context, the context of the other cluster")
	}
	if o.timeout <= 0 {
		return nil, nil, usagef("--timeout must be more than 0, and is %s", o.timeout)
	}
	peerKubeconfig := o.peerKubeconfig
	if peerKubeconfig == "" {
		peerKubeconfig = o.kubeconfig
	}
	if a, err = openSide(o.kubeconfig, o.context); err != nil {
		return nil, nil, err
	}
	if b, err = openSide(peerKubeconfig, o.peerContext); err != nil {
		return nil, nil, err
	}
	if a.Context == b.Context && peerKubeconfig == o.kubeconfig {
		return nil, nil, usagef("--context and --peer-context both name %s; a cluster does not join itself", a.Context)
	}
	return a, b, nil
}

// prepareSwap reads both clusters and checks everything that can be checked, so that a refusal comes
// before the first write.
func (o joinOptions) prepareSwap(ctx context.Context, a, b *side) ([2]*half, [2]*paste, error) {
	var halves [2]*half
	var pastes [2]*paste
	for i, s := range []*side{a, b} {
		var err error
		if halves[i], err = readSettled(ctx, s, o.namespace, o.timeout); err != nil {
			return halves, pastes, err
		}
		if why := removedFrom(halves[i].cluster); why != "" {
			return halves, pastes, s.errorf("%s", why)
		}
	}
	if halves[0].id() == halves[1].id() {
		return halves, pastes, usagef("contexts %s and %s lead to one cluster (%s); a cluster does not join itself", a.Context, b.Context, halves[0].id())
	}
	for i, to := range []*side{a, b} {
		var err error
		// The receiver's own credential shows which namespace its agent reads credentials from.
		if pastes[i], err = preparePaste(ctx, halves[1-i], to, halves[i].secret.GetNamespace()); err != nil {
			return halves, pastes, err
		}
	}
	return halves, pastes, nil
}

func describe(obj *unstructured.Unstructured) string {
	if ns := obj.GetNamespace(); ns != "" {
		return fmt.Sprintf("%s %s/%s", obj.GetKind(), ns, obj.GetName())
	}
	return fmt.Sprintf("%s %s", obj.GetKind(), obj.GetName())
}

// newProgress returns a printer of lines with the time since start. Progress goes to standard output
// unless that carries a document.
func newProgress(stdout, stderr io.Writer, output string, start time.Time) func(string, ...any) {
	w := stdout
	if output != "table" {
		w = stderr
	}
	return func(format string, args ...any) {
		fmt.Fprintf(w, "%5.1fs  %s\n", time.Since(start).Seconds(), fmt.Sprintf(format, args...))
	}
}
