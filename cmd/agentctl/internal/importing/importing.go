// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package importing is the command import: it creates the clusters of a file that export wrote. Three checks come before the
// first write, and each is about the whole file: decode of the file alone, plan against what the API server has, and a
// trial by the API server of everything that would be written.
package importing

import (
	"context"
	"errors"
	"fmt"
	"io"

	urfave "github.com/urfave/cli/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/documents"
)

// Command describes the command to the flag library.
func Command(g *cli.Globals) *urfave.Command {
	return &urfave.Command{
		Name:      "import",
		Usage:     "create the clusters of a file that export wrote",
		ArgsUsage: "FILE|-",
		Description: `Takes what agentctl export writes with -o yaml or json, and what kubectl get -o yaml prints: Cluster objects, and
the Secrets with their credentials, as a List or as documents. - is standard input. What a server sets or what is
meant for one cluster alone is left out.

An agent trusts each cluster of the file from then on, under the key that the file has: as a swap does, for one side.
Each of those clusters trusts this one only after a swap, or after it has imported this one.

The file is checked as a whole before anything is written: unknown kinds and fields, names, clusterIDs and Secrets
that are there twice or belong to others here, keys that differ from what is known here, and then, on trial, by the
API server. If anything is wrong, each error is a line with its place in the file, and nothing has changed.

Secrets go to the namespace of this cluster's own credential, else to that of -n, whichever the file names. The
cluster of the context itself is passed by, and a cluster that works here keeps the credential that it has. A Cluster
object that its own agent keeps up to date is not changed: where the file differs from it, that is an error.

The command can be repeated, also after it was interrupted.

Exit code: 0 everything is there; 1 the file is refused, or a write failed: standard error says which.`,
		Flags: []urfave.Flag{
			&urfave.BoolFlag{Name: "dry-run", Usage: "check everything, say what would be written, and write nothing"},
		},
		Action: func(c *urfave.Context) error {
			if c.Args().Len() != 1 {
				return cli.Usagef("import needs one file, or - for standard input")
			}
			return g.Run(c, &Options{
				Access: clusters.AccessOf(g), Namespace: g.Namespace.String(),
				File: c.Args().First(), DryRun: c.Bool("dry-run"), Stdin: c.App.Reader,
			})
		},
	}
}

// Options are what is imported, and where.
type Options struct {
	clusters.Access // of the cluster that gets the objects

	File      string // "-" for Stdin
	Stdin     io.Reader
	Namespace string // for Secrets, where the cluster has no credential of its own that shows it
	DryRun    bool
}

// Validate checks what can be checked without reading the file.
func (o *Options) Validate() error {
	if o.File == "" {
		return cli.Usagef("import needs one file, or - for standard input")
	}
	return nil
}

// Run checks the file, and then writes its objects.
func (o *Options) Run(ctx context.Context, out *cli.Output) error {
	docs, err := documents.Read(o.Stdin, []string{o.File})
	if err != nil {
		return err
	}
	entries, problems := decode(docs)
	if len(problems) > 0 {
		return problems.refuse(out, o.File)
	}
	if len(entries) == 0 {
		return fmt.Errorf("%s has no Cluster; nothing was written", o.File)
	}
	c, err := o.Open()
	if err != nil {
		return err
	}
	here, err := readTarget(ctx, c, o.Namespace)
	if err != nil {
		return err
	}
	writes, problems := here.plan(entries)
	if len(problems) > 0 {
		return problems.refuse(out, o.File)
	}
	// The trial is about every object, even after an error: a person fixes a file once.
	for _, w := range writes {
		if w.verb, err = w.put(ctx, c, metav1.DryRunAll); err != nil {
			problems.add(w.doc, "", clusters.Reason(err))
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if len(problems) > 0 {
		return problems.refuse(out, o.File)
	}
	return o.write(ctx, c, writes, out)
}

// write writes for real, and says what it did.
func (o *Options) write(ctx context.Context, c *clusters.Client, writes []*write, out *cli.Output) error {
	result := &imported{Context: c.Context, DryRun: o.DryRun, Objects: []importedObject{}}
	lines := cli.Printable{To: out.Stdout}
	if !out.ForPeople() {
		lines.To = out.Stderr
	}
	done := 0
	for _, w := range writes {
		verb := w.verb
		if !o.DryRun {
			var err error
			if verb, err = w.put(ctx, c); err != nil {
				return c.Errorf("%s: %w; %s written before, and the command can be repeated", w.title(), err, were(done))
			}
		}
		if verb == created || verb == updated {
			done++
		}
		result.add(w, verb)
		fmt.Fprintf(lines, "context %s: %s %s\n", c.Context, w.title(), phrase(verb, o.DryRun))
	}
	if out.ForPeople() {
		return nil
	}
	return out.Document(result)
}

// write is one object, and what is to be done about it.
type write struct {
	doc    *documents.Document
	object *unstructured.Unstructured
	verb   string // what the trial did; passedBy for what is not written at all
	why    string // it is passed by
}

// What is done about an object.
const (
	created   = "created"
	updated   = "updated"
	unchanged = "unchanged"
	passedBy  = "passedBy"
)

func (w *write) title() string {
	name := w.object.GetName()
	if ns := w.object.GetNamespace(); ns != "" {
		name = ns + "/" + name
	}
	title := w.object.GetKind() + " " + name
	if w.why != "" {
		title += " " + w.why + ","
	}
	return title
}

// put creates or updates the object, or tries it.
func (w *write) put(ctx context.Context, c *clusters.Client, dryRun ...string) (verb string, err error) {
	if w.why != "" {
		return passedBy, nil
	}
	resource, mine := clusters.ClusterResource(), clusters.CheckSameCluster(w.object)
	if clusters.IsSecret(w.object.GroupVersionKind()) {
		resource, mine = clusters.Core("secrets"), clusters.CheckCredential
	}
	verb, _, err = c.Put(ctx, resource, w.object, mine, dryRun...)
	if ns := w.object.GetNamespace(); ns != "" && apierrors.IsNotFound(err) {
		return "", errors.New("namespace " + ns + " does not exist")
	}
	return verb, err
}

func phrase(verb string, dryRun bool) string {
	switch {
	case verb == passedBy:
		return "left as it is"
	case verb == unchanged:
		return unchanged
	case dryRun:
		return "would be " + verb
	}
	return verb
}

func were(n int) string {
	if n == 1 {
		return "1 object was"
	}
	return cli.Plural(n, "object") + " were"
}

// imported is the result for a program. Its JSON is stable: fields are only ever added.
type imported struct {
	Context string           `json:"context"`
	DryRun  bool             `json:"dryRun"`
	Objects []importedObject `json:"objects"`
}

type importedObject struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Result    string `json:"result"` // created, updated, unchanged, passedBy; with dryRun what it would be
}

func (i *imported) add(w *write, verb string) {
	i.Objects = append(i.Objects, importedObject{w.object.GetKind(), w.object.GetNamespace(), w.object.GetName(), verb})
}
