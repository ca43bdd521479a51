// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package export is the command export: it writes the clusters of a group as one file, for another group, for kubectl or
// for another tool. It only reads, and Secrets only when it is told to.
//
// A format is a function from members to a document, and the lines about what the document lacks. Documents are stable: the
// same objects are the same bytes.
package export

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	urfave "github.com/urfave/cli/v2"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/documents"
	"github.com/roster-mesh/roster/kube/exported"
)

// The formats.
const (
	formatYAML       = "yaml"
	formatJSON       = "json"
	formatKubeconfig = "kubeconfig"
)

// Formats are what --output may be.
func Formats() []string {
	all := []string{formatYAML, formatJSON, formatKubeconfig}
	for _, f := range exported.Formats() {
		all = append(all, string(f))
	}
	return all
}

// join lists formats in a sentence.
func join(formats []exported.Format) string {
	var all []string
	for _, f := range formats {
		all = append(all, string(f))
	}
	return strings.Join(all, ", ")
}

// networkFlag says where the reader of what is written is.
func networkFlag() urfave.Flag {
	return &urfave.StringFlag{Name: "network-name", Value: "default", Usage: "`NAME` of the network that it is for, which chooses among the addresses of a cluster"}
}

// Command describes the command to the flag library.
func Command(g *cli.Globals) *urfave.Command {
	return &urfave.Command{
		Name:      "export",
		Usage:     "write the clusters of the group as one file, for another group or another tool",
		ArgsUsage: "[NAME ...]",
		Description: `Writes all clusters that the cluster of the context lists, itself included, or those that are named or that
-l selects, in the order of their names. The same objects are the same bytes.

  -o yaml, json   their Cluster objects as a List, which agentctl import takes, and kubectl apply: without status,
                  without what the API server sets, and without what is meant for one cluster alone
  -o kubeconfig   a context for each, named after the cluster, with the address for the network of --network-name
  -o argocd       a cluster Secret of Argo CD for each, without a namespace: kubectl apply -n argocd -f FILE
  -o flux         a Secret NAME-kubeconfig for each, for spec.kubeConfig.secretRef of a Kustomization or HelmRelease
  -o multicluster-runtime
                  a Secret for each that the kubeconfig provider of multicluster-runtime finds

No Secret is read without --with-credentials. With it, the file has the credential that the cluster of the context
holds for each cluster: with yaml and json as Secrets in the namespace of -n, with kubeconfig as users. Most of them
are short-lived, and all of them are somebody's: keep the file as you keep a password. --to writes it for you alone
(mode 0600), and as a whole or not at all. What another tool reads need not end: with --renew
the Secrets of the other clusters are marked, and the agent of the cluster of the context keeps the credentials in them if
you apply them there, in a namespace of the chart value renew.namespaces.

What is missing, such as a credential that cannot be read, is a line on standard error. With yaml and json the object
of the cluster is there without a credential then; with the other formats the cluster is left out.

Exit code: 0 everything is in the file; 4 the file lacks something; 2 no such cluster; 1 it cannot be done, and
nothing is written.`,
		Flags: []urfave.Flag{
			&urfave.GenericFlag{Name: "output", Aliases: []string{"o"}, Value: g.Output, DefaultText: formatYAML, Usage: "`FORMAT` of the file: " + strings.Join(Formats(), ", ")},
			&urfave.StringFlag{Name: "selector", Aliases: []string{"l"}, Usage: "only clusters whose labels match `SELECTOR`, as with kubectl"},
			&urfave.BoolFlag{Name: "with-credentials", Usage: "read the Secrets that hold the clusters' credentials, and write them as well"},
			&urfave.BoolFlag{Name: "renew", Usage: "with the formats of other tools: mark the Secrets so that the agent of the cluster of the context keeps the credentials in them, in the namespaces that its chart value renew.namespaces names"},
			networkFlag(),
			&urfave.StringFlag{Name: "to", Usage: "`FILE` to write, which only you can read, instead of standard output"},
		},
		Action: func(c *urfave.Context) error {
			return g.Run(c, &Options{
				Access: clusters.AccessOf(g), Names: c.Args().Slice(), Selector: c.String("selector"), Namespace: g.Namespace.String(),
				Credentials: c.Bool("with-credentials"), Renew: c.Bool("renew"), Network: c.String("network-name"), File: c.String("to"),
			})
		},
	}
}

// Options are what is exported.
type Options struct {
	clusters.Access // of the cluster that lists the others

	Names       []string // of clusters; nil for all
	Selector    string   // of labels; "" for all
	Namespace   string   // that the Secrets of a List are in
	Credentials bool     // read Secrets, and write what they hold
	Renew       bool     // have the agent keep the credentials in the Secrets of a tool
	Network     string   // that chooses among the addresses of a cluster
	File        string   // "" for standard output
}

// Formats are what --output may be.
func (o *Options) Formats() []string { return Formats() }

// Validate checks what can be checked without a cluster.
func (o *Options) Validate() error {
	if len(o.Names) > 0 && o.Selector != "" {
		return cli.Usagef("give names or -l, not both")
	}
	if _, err := labels.Parse(o.Selector); err != nil {
		return cli.Usagef("-l %q is no selector: %s", o.Selector, cli.OneLine(err.Error()))
	}
	return nil
}

// Run reads the clusters and writes the file. It returns an AnswerError when the file lacks something.
func (o *Options) Run(ctx context.Context, out *cli.Output) error {
	switch forTool := exported.Format(out.Format).Known(); {
	case forTool && !o.Credentials:
		return cli.Usagef("-o %s needs --with-credentials: a cluster without a credential is of no use there", out.Format)
	case o.Renew && !forTool:
		return cli.Usagef("--renew is for Secrets that another tool reads: -o %s", join(exported.Formats()))
	}
	c, err := o.Open()
	if err != nil {
		return err
	}
	read := o.members
	if o.Renew { // the cluster itself is issued no credential
		read = o.others
	}
	members, err := read(ctx, c)
	if err != nil {
		return err
	}
	doc, f := o.document(out.Format, members)
	remarks := cli.Printable{To: out.Stderr}
	for _, line := range f.lacks {
		fmt.Fprintln(remarks, line)
	}
	if len(members) > 0 && f.clusters == 0 {
		return c.Errorf("nothing is left to export")
	}
	if err := o.write(out, doc); err != nil {
		return err
	}
	switch {
	case len(members) == 0:
		fmt.Fprintf(remarks, "no clusters to export in context %s\n", c.Context)
	case f.credentials > 0:
		fmt.Fprintf(remarks, "the file holds the credentials of %s: whoever has it may read there what they may read\n", cli.Plural(f.credentials, "cluster"))
	case out.Format == formatKubeconfig:
		fmt.Fprintln(remarks, "the file holds no credentials: --with-credentials adds those that this cluster has, kubectl config set-credentials your own")
	}
	if len(f.lacks) > 0 {
		return cli.Answerf(cli.ExitUnmatched, "the file is complete but for %s", cli.Plural(len(f.lacks), "cluster"))
	}
	return nil
}

// file says what a document has and lacks.
type file struct {
	clusters    int
	credentials int
	lacks       []string // a line for each cluster that is not in it as it was asked for
}

func (o *Options) document(format string, members []*member) (any, *file) {
	switch to := exported.Format(format); {
	case to.Known():
		return asSecrets(members, o.Network, to, o.Renew)
	case format == formatKubeconfig:
		return asKubeconfig(members, o.Network)
	default:
		return asList(members, o.Namespace)
	}
}

// members are the clusters that are exported, with their credentials if those are asked for, in name order.
func (o *Options) members(ctx context.Context, c *clusters.Client) ([]*member, error) {
	all, err := c.ClusterObjects(ctx)
	if err != nil {
		return nil, err
	}
	selector, err := labels.Parse(o.Selector)
	if err != nil {
		return nil, err
	}
	for _, name := range o.Names {
		if !slices.ContainsFunc(all, func(u unstructured.Unstructured) bool { return u.GetName() == name }) {
			return nil, unknownCluster(c, name, all)
		}
	}
	var out []*member
	for i := range all {
		u := &all[i]
		if len(o.Names) > 0 && !slices.Contains(o.Names, u.GetName()) || !selector.Matches(labels.Set(u.GetLabels())) {
			continue
		}
		out = append(out, &member{name: u.GetName(), object: u})
	}
	if !o.Credentials {
		return out, nil
	}
	return out, readCredentials(ctx, c, out, o.Namespace)
}

// others are members without the cluster of the context.
func (o *Options) others(ctx context.Context, c *clusters.Client) ([]*member, error) {
	own, err := c.Local(ctx)
	if err != nil {
		return nil, err
	}
	if slices.Contains(o.Names, own.GetName()) {
		return nil, cli.Usagef("context %s leads to cluster %s already", c.Context, own.GetName())
	}
	all, err := o.members(ctx, c)
	return slices.DeleteFunc(all, func(m *member) bool { return m.name == own.GetName() }), err
}

func unknownCluster(c *clusters.Client, name string, all []unstructured.Unstructured) error {
	var known []string
	for i := range all {
		known = append(known, all[i].GetName())
	}
	return cli.Usagef("no cluster %q in context %s; it lists: %s", name, c.Context, strings.Join(known, ", "))
}

// write writes a document where the user wants it.
func (o *Options) write(out *cli.Output, doc any) error {
	format := formatYAML
	if out.Format == formatJSON {
		format = formatJSON
	}
	if o.File == "" {
		return (&cli.Output{Stdout: out.Stdout, Format: format}).Document(doc)
	}
	var data bytes.Buffer
	if err := (&cli.Output{Stdout: &data, Format: format}).Document(doc); err != nil {
		return err
	}
	return documents.Write(o.File, data.Bytes())
}
