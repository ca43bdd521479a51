// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	urfave "github.com/urfave/cli/v2"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
)

func rulesExplainCommand(g *globals) *urfave.Command {
	return &urfave.Command{
		Name:      "explain",
		Usage:     "say why something is copied, or why it is not",
		ArgsUsage: "RULE | KIND NAME | KIND/NAME | -f FILE",
		Description: `For a rule: which clusters it goes to and comes from, what it selects there, and how the copies here
stand. For an object: which rules select it and, where one does not, which field says no; where its
copies are or would be, and who owns them. KIND is written as for kubectl: secret, cm, deploy.apps.
For a file (-f): the same for rules and objects that nobody has applied yet. A rule of a file stands in
for the one of its name; an object of a file is taken as one of this cluster (or --from another).

Differences are shown as a unified diff between what is there and what would be, after a dry run by
the API server where you may write there. What Secrets hold is never shown: only sizes, and hashes that
are comparable within one output.

Nothing is written. Other clusters are read with the credentials that this one holds, if you may read
those Secrets, or by --peer-context. What cannot be found out is said to be unknown, with the reason.

Exit code: 0 at least one copy is or would be in sync, and nothing is in the way; 4 nothing is selected;
5 something is in the way of a copy; 6 cannot be told; 1 an error, such as a rule in a file that does not
compile; 2 a wrong command line.

  agentctl rules explain web-certs
  agentctl rules explain secret web-tls -n shop
  agentctl rules explain -f rule.yaml --peer-context cluster-2=admin@cluster-2`,
		Flags: append([]urfave.Flag{
			&urfave.StringSliceFlag{Name: "filename", Aliases: []string{"f"}, Usage: "`FILE` with rules and objects not yet applied; - for standard input; may be repeated"},
			&urfave.GenericFlag{Name: "namespace", Aliases: []string{"n"}, Value: g.Namespace, Usage: "`NAMESPACE` of the object (default: the context's, then default)"},
			&urfave.StringSliceFlag{Name: "peer-context", Usage: "reach a cluster by a context of your own, `NAME=CONTEXT`; may be repeated"},
			&urfave.StringFlag{Name: "from", Usage: "take the objects of files as ones of this `CLUSTER`"},
			&urfave.BoolFlag{Name: "no-dry-run", Usage: "show what would be written without asking API servers what they make of it"},
			&urfave.IntFlag{Name: "limit", Value: 20, Usage: "how many copies of a rule are shown one by one, and written on trial"},
			&urfave.StringFlag{Name: "network-name", Value: "default", Usage: "`NAME` of the network that this computer is in, which chooses among the addresses of a cluster"},
		}, consentFlags()...),
		BashComplete: func(c *urfave.Context) {
			if !c.Args().Present() {
				completeRules(c.Context, c, g)
			}
		},
		Action: func(c *urfave.Context) error {
			o, err := explainOptionsOf(c, g)
			if err != nil {
				return err
			}
			return o.run(c.Context, c.App.Reader, c.App.Writer)
		},
	}
}

type explainOptions struct {
	kubeconfig, context, output string
	namespace                   string // of the object; "" for the context's
	network, origin             string
	consent                     syncrules.Consent
	peerContexts                map[string]string
	files                       []string
	kind, name                  string // kind is "" for a rule
	dryRun                      bool
	limit                       int
}

func explainOptionsOf(c *urfave.Context, g *globals) (*explainOptions, error) {
	o := &explainOptions{
		kubeconfig: g.Kubeconfig.String(), context: g.Context.String(), output: g.Output.String(),
		network: c.String("network-name"), origin: c.String("from"),
		peerContexts: map[string]string{}, files: c.StringSlice("filename"), dryRun: !c.Bool("no-dry-run"), limit: c.Int("limit"),
	}
	var err error
	if o.consent, err = consentOf(c); err != nil {
		return nil, err
	}
	if g.Namespace.IsSet() {
		o.namespace = g.Namespace.String()
	}
	for _, text := range c.StringSlice("peer-context") {
		name, context, found := strings.Cut(text, "=")
		if !found || name == "" || context == "" {
			return nil, usagef("--peer-context must be NAME=CONTEXT, and is %q", text)
		}
		o.peerContexts[name] = context
	}
	if o.limit < 0 {
		return nil, usagef("--limit must not be negative")
	}
	return o, o.subject(c.Args().Slice())
}

// subject reads what is to be explained.
func (o *explainOptions) subject(args []string) error {
	switch {
	case len(o.files) > 0 && len(args) > 0:
		return usagef("rules explain takes either -f or %q, not both", strings.Join(args, " "))
	case o.origin != "" && len(o.files) == 0:
		return usagef("--from is about the objects of files; give -f")
	case len(o.files) > 0:
	case len(args) == 1 && strings.Contains(args[0], "/"):
		o.kind, o.name, _ = strings.Cut(args[0], "/")
		if o.kind == "" || o.name == "" {
			return usagef("%q is not KIND/NAME", args[0])
		}
	case len(args) == 1:
		o.name = args[0]
	case len(args) == 2:
		o.kind, o.name = args[0], args[1]
	default:
		return usagef("rules explain needs a rule, a kind and a name, or -f FILE")
	}
	return nil
}

func (o *explainOptions) run(ctx context.Context, stdin io.Reader, stdout io.Writer) error {
	docs, err := o.read(stdin)
	if err != nil {
		return err
	}
	local, err := openSide(o.kubeconfig, o.context)
	if err != nil {
		return err
	}
	q, err := o.inquire(ctx, local, docs)
	if err != nil {
		return err
	}
	r := &report{
		Context: local.Context, Cluster: q.local().name, ClusterID: q.local().id,
		Rules: []*ruleReport{}, Copies: []*copyReport{}, Counts: map[string]int{}, Blind: []clusterReason{}, Notes: []string{},
	}
	if err := o.answer(ctx, q, docs, r); err != nil {
		return err
	}
	r.hide(q.telling)
	r.conclude()
	if o.output == "table" {
		r.print(printable{stdout})
	} else if err := printDocument(stdout, o.output, r); err != nil {
		return err
	}
	return r.err()
}

// answer explains what was asked for: the object, the rule, or the one object or rule of the files. A file with
// objects is about those, and its rules are what they are judged by.
func (o *explainOptions) answer(ctx context.Context, q *inquiry, docs []*document, r *report) error {
	if len(docs) > 0 {
		return o.answerFiles(ctx, q, docs, r)
	}
	if o.kind == "" {
		return q.explainRule(ctx, o.name, r)
	}
	local := q.local()
	gvk, err := local.api.parseKind(o.kind)
	if err != nil {
		return err
	}
	if gvk.Group == v1alpha1.GroupName && gvk.Kind == "ResourceSyncRule" {
		return q.explainRule(ctx, o.name, r)
	}
	at := syncrules.Place{GroupVersionKind: gvk, Name: o.name}
	if at.Namespace, err = o.namespaceOf(local, gvk, ""); err != nil {
		return err
	}
	return q.explainObject(ctx, at, nil, nil, r)
}

func (o *explainOptions) answerFiles(ctx context.Context, q *inquiry, docs []*document, r *report) error {
	objects := slices.DeleteFunc(slices.Clone(docs), isRule)
	if len(objects) > 1 {
		return usagef("the files hold %d objects beside rules; explain one at a time", len(objects))
	}
	if len(objects) == 0 {
		for _, d := range docs {
			if err := q.explainRule(ctx, d.object.GetName(), r); err != nil {
				return err
			}
		}
		return nil
	}
	from := q.local()
	if o.origin != "" {
		i := slices.IndexFunc(q.clusters, func(c *reached) bool { return c.name == o.origin })
		if i < 0 {
			return usagef("--from names cluster %q, which context %s does not know", o.origin, q.local().api.side.Context)
		}
		from = q.clusters[i]
	}
	d := objects[0]
	at := syncrules.PlaceOf(d.object)
	if at.Name == "" || at.Kind == "" || at.Version == "" {
		return fmt.Errorf("%s:%d: the object needs apiVersion, kind and metadata.name", d.File, d.Line)
	}
	var err error
	if at.Namespace, err = o.namespaceOf(from, at.GroupVersionKind, at.Namespace); err != nil {
		return err
	}
	d.object.SetNamespace(at.Namespace)
	r.Object = &objectReport{File: d.File}
	return q.explainObject(ctx, at, d.object, from, r)
}

// namespaceOf is the namespace of an object, as kubectl would choose it; "" for a kind that is in none.
func (o *explainOptions) namespaceOf(c *reached, gvk schema.GroupVersionKind, own string) (string, error) {
	chosen := cmp.Or(own, o.namespace, "default")
	if c.local {
		chosen = cmp.Or(own, o.namespace, c.api.side.namespace, "default")
	}
	if c.api == nil {
		return chosen, nil
	}
	namespaced, err := c.api.namespaced(gvk)
	if err != nil {
		return "", c.api.side.errorf("%w", err)
	}
	if !namespaced {
		return "", nil
	}
	return chosen, nil
}

// read reads the files. What is wrong with their rules is an error as lint shows it.
func (o *explainOptions) read(stdin io.Reader) ([]*document, error) {
	if len(o.files) == 0 {
		return nil, nil
	}
	docs, err := readDocuments(stdin, o.files)
	if err != nil {
		return nil, err
	}
	if len(docs) == 0 {
		return nil, fmt.Errorf("%s: holds no object", strings.Join(o.files, " "))
	}
	for _, f := range lint(docs, o.consent).Findings {
		if f.Severity == severityError {
			return nil, fmt.Errorf("%s:%d: %s: %s (`agentctl rules lint` shows all errors)", f.File, f.Line, f.Field, f.Message)
		}
	}
	return docs, nil
}

// inquire reads what every explanation needs: the clusters, and the rules with those of the files in their place.
func (o *explainOptions) inquire(ctx context.Context, local *side, docs []*document) (*inquiry, error) {
	find := reach{local: local, kubeconfig: o.kubeconfig, peerContexts: o.peerContexts, network: o.network}
	clusters, err := find.clusters(ctx)
	if err != nil {
		return nil, err
	}
	if clusters[0].api == nil {
		return nil, local.errorf("%s", clusters[0].why)
	}
	q := &inquiry{clusters: clusters, consent: o.consent, limit: o.limit, dryRun: o.dryRun}
	known, err := local.rules(ctx)
	if err != nil {
		return nil, err
	}
	add := func(rule *v1alpha1.ResourceSyncRule, file string) {
		one := &ruleInForce{api: rule, file: file}
		one.compiled, one.err = syncrules.Compile(rule)
		q.rules = slices.DeleteFunc(q.rules, func(r *ruleInForce) bool { return r.api.Name == rule.Name })
		q.rules = append(q.rules, one)
	}
	for _, rule := range known {
		add(rule, "")
	}
	for _, d := range docs {
		if isRule(d) {
			rule, _ := decodeRule(d)
			add(rule, d.File)
		}
	}
	slices.SortFunc(q.rules, func(a, b *ruleInForce) int { return strings.Compare(a.api.Name, b.api.Name) })
	return q, nil
}
