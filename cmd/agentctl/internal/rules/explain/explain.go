// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package explain is the command rules explain: it says why something is copied between the clusters of a group, or why
// it is not. It reads the same facts as the agents and decides with the same functions of syncrules. Nothing is written.
//
//	inquiry  the facts, read once: the clusters (reached) and the rules (ruleInForce)
//	report   the answer
//
// What a Secret holds is never shown; redaction sees to that.
package explain

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/documents"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/fleet"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/rules/explain/answer"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/rules/lint"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/consent"
)

// reachTimeout is how long all other clusters may take to answer for the first time.
const reachTimeout = time.Minute

// Options are what is explained: a rule, an object, or files.
type Options struct {
	clusters.Access

	Subject   []string // RULE, KIND NAME or KIND/NAME; none with Files
	Namespace string   // of the object; "" for the context's
	Files     []string // with rules and objects that nobody has applied yet
	Stdin     io.Reader
	From      string // the cluster that the objects of files are taken as ones of; "" for the one of Access
	// PeerContexts are contexts of the user's own, by the name of the cluster. All other clusters are read with the
	// credentials that the cluster of Access holds.
	PeerContexts map[string]string
	Network      string // that this computer is in, which chooses among the addresses of a cluster
	Consent      consent.Policy
	NoDryRun     bool         // show what would be written without asking API servers what they make of it
	Limit        int          // how many copies of a rule are shown one by one, each with a dry run
	Fleet        *fleet.Group // for a rule: how it stands in every member; nil for the cluster of Access
}

// Validate checks what can be checked without a cluster and without reading a file.
func (o *Options) Validate() error {
	switch {
	case o.Limit < 0:
		return cli.Usagef("--limit must not be negative, and is %d", o.Limit)
	case len(o.Files) > 0 && len(o.Subject) > 0:
		return cli.Usagef("rules explain takes either -f or %q, not both", strings.Join(o.Subject, " "))
	case o.Fleet != nil && len(o.Files) > 0:
		return cli.Usagef("--fleet is about what is there, and -f about what is not applied yet")
	case o.From != "" && len(o.Files) == 0:
		return cli.Usagef("--from is about the objects of files; give -f")
	case len(o.Files) > 0:
	default:
		_, _, err := o.subject()
		return err
	}
	return nil
}

// subject reads what is to be explained; kind is "" for a rule.
func (o *Options) subject() (kind, name string, err error) {
	switch args := o.Subject; {
	case len(args) == 1 && strings.Contains(args[0], "/"):
		kind, name, _ = strings.Cut(args[0], "/")
		if kind == "" || name == "" {
			return "", "", cli.Usagef("%q is not KIND/NAME", args[0])
		}
		return kind, name, nil
	case len(args) == 1:
		return "", args[0], nil
	case len(args) == 2:
		return args[0], args[1], nil
	default:
		return "", "", cli.Usagef("rules explain needs a rule, a kind and a name, or -f FILE")
	}
}

// Run prints the explanation, and returns an AnswerError unless at least one copy is, or would be, in sync.
func (o *Options) Run(ctx context.Context, out *cli.Output) error {
	docs, err := o.read()
	if err != nil {
		return err
	}
	own, known, unknown, err := reachAll(ctx, o.group())
	if err != nil {
		return err
	}
	if kind, _, _ := o.subject(); o.Fleet != nil && kind == "" {
		return o.runFleet(ctx, own, known, unknown, out)
	}
	r, err := o.explainAt(ctx, &reach{member: own, known: known}, docs)
	if err != nil {
		return err
	}
	if out.ForPeople() {
		r.Print(cli.Printable{To: out.Stdout})
	} else if err := out.Document(r); err != nil {
		return err
	}
	if err := fleet.Incomplete(unknown); o.Fleet != nil && err != nil {
		return err
	}
	return r.Err()
}

// group is who is asked, for the sources of copies at least.
func (o *Options) group() *fleet.Group {
	g := fleet.Group{Access: o.Access, Timeout: reachTimeout}
	if o.Fleet != nil {
		g = *o.Fleet
	}
	g.Named, g.Network = o.PeerContexts, o.Network
	return &g
}

// explainAt explains it as it is in one cluster.
func (o *Options) explainAt(ctx context.Context, from *reach, docs []*documents.Document) (*answer.Report, error) {
	q, err := o.inquire(ctx, from, docs)
	if err != nil {
		return nil, err
	}
	r := &answer.Report{
		Context: from.member.Client.Context, Cluster: q.local().name, ClusterID: q.local().id,
		Rules: []*answer.Rule{}, Copies: []*answer.Copy{}, Counts: map[string]int{}, Unknown: []answer.Unknown{}, Notes: []string{},
	}
	if err := o.answer(ctx, q, docs, r); err != nil {
		return nil, err
	}
	r.Conclude()
	return r, nil
}

// answer explains what was asked for: the object, the rule, or the one object or rule of the files. A file with
// objects is about those, and its rules are what they are judged by.
func (o *Options) answer(ctx context.Context, q *inquiry, docs []*documents.Document, r *answer.Report) error {
	if len(docs) > 0 {
		return o.answerFiles(ctx, q, docs, r)
	}
	kind, name, err := o.subject()
	if err != nil {
		return err
	}
	if kind == "" {
		return q.explainRule(ctx, name, r)
	}
	local := q.local()
	gvk, err := local.api.ParseKind(ctx, kind)
	if err != nil {
		return err
	}
	if gvk.Group == v1alpha1.GroupName && gvk.Kind == "ResourceSyncRule" {
		return q.explainRule(ctx, name, r)
	}
	at := syncrules.Place{GroupVersionKind: gvk, Name: name}
	if at.Namespace, err = o.namespaceOf(ctx, local, gvk, ""); err != nil {
		return err
	}
	return q.explainObject(ctx, at, nil, nil, r)
}

func (o *Options) answerFiles(ctx context.Context, q *inquiry, docs []*documents.Document, r *answer.Report) error {
	objects := slices.DeleteFunc(slices.Clone(docs), lint.IsRule)
	if len(objects) > 1 {
		return cli.Usagef("the files hold %d objects beside rules; explain one at a time", len(objects))
	}
	if len(objects) == 0 {
		q.measure(ctx, origin{}, &answer.Report{}) // what is not known is told of each source
		for _, d := range docs {
			if err := q.explainRule(ctx, d.Object.GetName(), r); err != nil {
				return err
			}
		}
		return nil
	}
	from := q.local()
	if o.From != "" {
		i := slices.IndexFunc(q.clusters, func(c *reached) bool { return c.name == o.From })
		if i < 0 {
			return cli.Usagef("--from names cluster %q, which context %s does not know", o.From, q.local().api.Context)
		}
		from = q.clusters[i]
	}
	d := objects[0]
	at := syncrules.PlaceOf(d.Object)
	if at.Name == "" || at.Kind == "" || at.Version == "" {
		return fmt.Errorf("%s:%d: the object needs apiVersion, kind and metadata.name", d.File, d.Line)
	}
	var err error
	if at.Namespace, err = o.namespaceOf(ctx, from, at.GroupVersionKind, at.Namespace); err != nil {
		return err
	}
	d.Object.SetNamespace(at.Namespace)
	r.Object = &answer.Object{File: d.File}
	q.measure(ctx, origin{from, d.Object}, r)
	return q.explainObject(ctx, at, d.Object, from, r)
}

// namespaceOf is the namespace of an object, as kubectl would choose it; "" for a kind that is in none.
func (o *Options) namespaceOf(ctx context.Context, c *reached, gvk schema.GroupVersionKind, own string) (string, error) {
	chosen := cmp.Or(own, o.Namespace, "default")
	if c.local {
		chosen = cmp.Or(own, o.Namespace, c.api.Namespace, "default")
	}
	if c.api == nil {
		return chosen, nil
	}
	namespaced, err := c.api.IsNamespaced(ctx, gvk)
	if err != nil {
		return "", c.api.Errorf("%w", err)
	}
	if !namespaced {
		return "", nil
	}
	return chosen, nil
}

// read reads the files. What is wrong with their rules is an error as lint shows it.
func (o *Options) read() ([]*documents.Document, error) {
	if len(o.Files) == 0 {
		return nil, nil
	}
	docs, err := documents.Read(o.Stdin, o.Files)
	if err != nil {
		return nil, err
	}
	if len(docs) == 0 {
		return nil, fmt.Errorf("%s: holds no object", strings.Join(o.Files, " "))
	}
	for _, f := range lint.Check(docs, o.Consent).Findings {
		if f.Severity == lint.SeverityError {
			return nil, fmt.Errorf("%s:%d: %s: %s (`agentctl rules lint` shows all errors)", f.File, f.Line, f.Field, f.Message)
		}
	}
	return docs, nil
}

// inquire reads what every explanation needs: the clusters, and the rules with those of the files in their place.
func (o *Options) inquire(ctx context.Context, from *reach, docs []*documents.Document) (*inquiry, error) {
	all, err := from.clusters(ctx)
	if err != nil {
		return nil, err
	}
	if all[0].api == nil {
		return nil, from.member.Client.Errorf("%s", all[0].why)
	}
	q := &inquiry{clusters: all, consent: o.Consent, limit: o.Limit, dryRun: !o.NoDryRun}
	known, err := fleet.List[v1alpha1.ResourceSyncRule](ctx, from.member, clusters.RuleResource())
	if err != nil {
		return nil, from.member.Client.Errorf("list rules: %w", err)
	}
	add := func(rule *v1alpha1.ResourceSyncRule, file string) {
		one := &ruleInForce{api: rule, file: file}
		one.compiled, one.err = syncrules.Compile(rule)
		q.rules = slices.DeleteFunc(q.rules, func(r *ruleInForce) bool { return r.api.Name == rule.Name })
		q.rules = append(q.rules, one)
	}
	from.limit(all, known)
	for _, rule := range known {
		add(rule, "")
	}
	for _, d := range docs {
		if lint.IsRule(d) {
			rule, _ := lint.DecodeRule(d)
			add(rule, d.File)
		}
	}
	slices.SortFunc(q.rules, func(a, b *ruleInForce) int { return strings.Compare(a.api.Name, b.api.Name) })
	return q, nil
}
