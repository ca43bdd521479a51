// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	urfave "github.com/urfave/cli/v2"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/byname"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/adopt"
)

func adoptCommand(g *cli.Globals) *urfave.Command {
	return &urfave.Command{
		Name:      "adopt",
		Usage:     "let a rule make copies of objects that are here",
		ArgsUsage: "RULE KIND/NAME...",
		Description: `Consents, in the cluster that has the objects, to what a rule with conflictPolicy Adopt does: each becomes the copy of the
object that the rule selects, and what it holds now is not kept. The consent is the annotation
` + v1alpha1.AnnotationAdopt + `; the agent here does the rest, and agentctl rules explain KIND NAME says how that stands.

KIND is written as for kubectl: secret, cm, deploy.apps.

Exit code: 0 consented, or so already; 1 an object cannot be adopted, or it cannot be done. Those before it have the consent, then.

  agentctl rules explain cm settings -n team    # the difference
  agentctl rules adopt team-settings cm/settings -n team --from cluster-2`,
		Flags: []urfave.Flag{
			&urfave.GenericFlag{Name: "namespace", Aliases: []string{"n"}, Value: g.Namespace, DefaultText: "the context's, then default", Usage: "`NAMESPACE` of the objects"},
			&urfave.StringFlag{Name: "from", Usage: "only for copies of objects of this `CLUSTER`, and no more for those of any (default: of any; it is needed where the rule copies the object to other clusters, too)"},
			&urfave.BoolFlag{Name: "dry-run", Usage: "say what would be changed, and change nothing"},
		},
		Action: func(c *urfave.Context) error {
			if c.Args().Len() < 2 {
				return cli.Usagef("rules adopt needs the name of a rule, and KIND/NAME of what it may make a copy")
			}
			o := &AdoptOptions{Access: clusters.AccessOf(g), Rule: c.Args().First(), Objects: c.Args().Tail(), From: c.String("from"), DryRun: c.Bool("dry-run")}
			if g.Namespace.IsSet() {
				o.Namespace = g.Namespace.String()
			}
			return g.Run(c, o)
		},
	}
}

// AdoptOptions are which objects a rule may make copies.
type AdoptOptions struct {
	clusters.Access // of the cluster that has the objects

	Rule      string
	Objects   []string // KIND/NAME
	Namespace string   // "" for the context's
	From      string   // the cluster whose objects they may become copies of; "" for any
	DryRun    bool
}

// Validate checks what can be checked without a cluster.
func (o *AdoptOptions) Validate() error { return byname.Validate(o.Objects) }

// Run writes the consent to each object.
func (o *AdoptOptions) Run(ctx context.Context, out *cli.Output) error {
	c, err := o.Open()
	if err != nil {
		return err
	}
	_, rule, err := c.Rule(ctx, o.Rule)
	if err != nil {
		return err
	}
	if rule.Spec.ConflictPolicy != v1alpha1.ConflictAdopt {
		return c.Errorf("rule %s adopts nothing: it has no spec.conflictPolicy: %s, which is set in the cluster that the rule is from", o.Rule, v1alpha1.ConflictAdopt)
	}
	compiled, err := syncrules.Compile(rule)
	if err != nil {
		return c.Errorf("rule %s is in force nowhere: %w", o.Rule, err)
	}
	from, err := o.origin(ctx, c)
	if err != nil {
		return err
	}
	result := consents{Context: c.Context, Rule: o.Rule, From: from, DryRun: o.DryRun, Objects: []consent{}}
	reader := clusters.NewReader(c)
	for _, text := range o.Objects {
		one, failed := o.consent(ctx, reader, compiled, text, from)
		if failed != nil {
			err = failed
			break
		}
		if result.Objects = append(result.Objects, one); out.ForPeople() {
			fmt.Fprintf(cli.Printable{To: out.Stdout}, "%s: %s\n", one.name(), one.said(o, from))
		}
	}
	if err == nil && out.ForPeople() {
		fmt.Fprintln(out.Stdout, "What becomes of them: agentctl rules explain KIND NAME. Where it still asks for the consent, name the cluster: --from")
	}
	if !out.ForPeople() {
		err = cmp.Or(err, out.Document(result))
	}
	return err
}

// origin is the clusterID of the cluster whose objects they may become copies of, "" for any. A clusterID counts before a name: members
// choose their names.
func (o *AdoptOptions) origin(ctx context.Context, c *clusters.Client) (string, error) {
	if o.From == "" {
		return "", nil
	}
	members, err := c.Members(ctx)
	if err != nil {
		return "", err
	}
	at := slices.IndexFunc(members, func(m *v1alpha1.Cluster) bool { return string(m.Spec.ClusterID) == o.From })
	if at < 0 {
		at = slices.IndexFunc(members, func(m *v1alpha1.Cluster) bool { return m.Name == o.From })
	}
	switch {
	case at < 0:
		return "", c.Errorf("there is no cluster %s here, which --from names: kubectl get clusters lists them", o.From)
	case members[at].Status.Type == v1alpha1.ClusterTypeLocal:
		return "", c.Errorf("cluster %s is this one, and --from names the one that has the source", o.From)
	}
	return string(members[at].Spec.ClusterID), nil
}

// consent writes the consent to one object.
func (o *AdoptOptions) consent(ctx context.Context, reader *clusters.Reader, rule *syncrules.Rule, text, from string) (out consent, err error) {
	at, err := byname.Place(ctx, reader, text, o.Namespace)
	if err != nil {
		return out, err
	}
	gvk := at.GroupVersionKind
	if !slices.ContainsFunc(rule.TargetKinds(), func(k schema.GroupVersionKind) bool { return k.GroupKind() == gvk.GroupKind() }) {
		return out, reader.Errorf("rule %s makes no copies of the kind %s", o.Rule, gvk.GroupKind())
	}
	out = consent{APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind, Namespace: at.Namespace, Name: at.Name}
	obj, err := reader.Get(ctx, at)
	switch {
	case err != nil:
		return out, reader.Errorf("read %s: %w", out.name(), err)
	case obj == nil:
		return out, reader.Errorf("%s does not exist: the rule makes what is not there without being asked", out.name())
	}
	objects, err := reader.Objects(ctx, gvk, at.Namespace)
	if err != nil {
		return out, reader.Errorf("%w", err)
	}
	err = reader.Change(ctx, objects, obj, func(there *unstructured.Unstructured) error {
		out.Changed, err = allow(there, o.Rule, from)
		return err
	}, clusters.DryRun(o.DryRun)...)
	return out, err
}

// allow puts the consent on an object, and says whether it was not there.
func allow(obj *unstructured.Unstructured, rule, from string) (changed bool, err error) {
	if syncrules.IsCopy(obj) {
		return false, errors.New("it is a copy already, of an object of the cluster with the clusterID " + clusters.Bound(syncrules.Owner(obj)))
	}
	given, to := adopt.Given(obj), rule
	want := slices.Clone(given)
	if from != "" {
		to += "@" + from
		want = slices.DeleteFunc(want, func(one string) bool { return one == rule }) // which is for any cluster
	}
	if !slices.Contains(want, to) {
		want = append(want, to)
	}
	if changed = !slices.Equal(want, given); changed {
		annotations := obj.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[v1alpha1.AnnotationAdopt] = strings.Join(want, ",")
		obj.SetAnnotations(annotations)
	}
	if why := adopt.Refuses(obj, []string{rule}, from, false); why != "" {
		return false, errors.New("it cannot be adopted: " + why)
	}
	return changed, nil
}

// consents is the result for a program. Its JSON is stable: fields are only ever added.
type consents struct {
	Context string    `json:"context"`
	Rule    string    `json:"rule"`
	From    string    `json:"from,omitempty"` // clusterID
	DryRun  bool      `json:"dryRun,omitempty"`
	Objects []consent `json:"objects"`
}

type consent struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	Changed    bool   `json:"changed"`
}

func (c consent) name() string {
	if c.Namespace == "" {
		return c.Kind + " " + c.Name
	}
	return c.Kind + " " + c.Namespace + "/" + c.Name
}

func (c consent) said(o *AdoptOptions, from string) string {
	to := "rule " + o.Rule
	if from != "" {
		to += ", for the object of cluster " + o.From + " (" + from + ")"
	}
	switch {
	case !c.Changed:
		return "has the consent to " + to + " already"
	case o.DryRun:
		return "would have the consent to " + to + ". What it holds is not kept when it becomes the copy"
	}
	return "has the consent to " + to + ". What it holds is not kept when it becomes the copy"
}
