// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package credentials is the command credentials: what is done with the credentials that let others read a cluster.
package credentials

import (
	"context"
	"strings"

	urfave "github.com/urfave/cli/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// Command describes the command to the flag library.
func Command(g *cli.Globals) *urfave.Command {
	return &urfave.Command{
		Name:  "credentials",
		Usage: "end credentials that let other clusters read this one",
		Subcommands: []*urfave.Command{{
			Name:      "revoke",
			Usage:     "end the credentials of one cluster, or of all",
			ArgsUsage: "NAME | --all",
			Description: `Ends the tokens with which the cluster NAME, or every cluster, reads the cluster of the context: those that its
agent issued to them, and the swapped one, which any of them may have. The API server refuses them some ten
seconds later; a watch that is open may last until its connection ends.

This is for tokens that somebody else may have. The agent issues others to the members of the group at once, and
puts another one into the Secret that is swapped. To keep a cluster out, use agentctl remove, or the annotation
cluster-registry.k8s.cisco.com/cluster-disabled. A cluster without mesh gets none: swap the Secret again.

Exit code: 0 they are ended, or there were none; 2 no such cluster; 1 it cannot be done.`,
			Flags: []urfave.Flag{
				&urfave.BoolFlag{Name: "all", Usage: "of every cluster"},
				&urfave.BoolFlag{Name: "dry-run", Usage: "say what would be deleted, and change nothing"},
			},
			Action: func(c *urfave.Context) error {
				if c.Args().Len() > 1 {
					return cli.Usagef("credentials revoke needs the name of one cluster, as `agentctl clusters` lists it, or --all")
				}
				return g.Run(c, &RevokeOptions{
					Access: clusters.AccessOf(g), Namespace: g.Namespace.String(), Name: c.Args().First(), All: c.Bool("all"), DryRun: c.Bool("dry-run"),
				})
			},
		}},
		Action: cli.OnlySubcommands,
	}
}

// RevokeOptions are whose credentials end.
type RevokeOptions struct {
	clusters.Access // of the cluster that they read

	Namespace string // of its agent
	Name      string // of the cluster that reads with them
	All       bool   // of every cluster, instead
	DryRun    bool
}

// Validate checks what can be checked without a cluster.
func (o *RevokeOptions) Validate() error {
	switch {
	case o.Name == "" && !o.All:
		return cli.Usagef("credentials revoke needs the name of one cluster, as `agentctl clusters` lists it, or --all")
	case o.Name != "" && o.All:
		return cli.Usagef("credentials revoke takes the name of a cluster or --all, not both")
	}
	return nil
}

// target is an object with whose deletion credentials end, or are issued anew.
type target struct {
	kind, namespace, name string
	client                dynamic.ResourceInterface
}

func (t target) String() string { return t.kind + " " + t.namespace + "/" + t.name }

// revoked is the result for a program. Its JSON is stable: fields are only ever added.
type revoked struct {
	Revoked []string `json:"revoked"` // objects that were deleted
	DryRun  bool     `json:"dryRun,omitempty"`
}

// Run deletes what the credentials end with.
func (o *RevokeOptions) Run(ctx context.Context, out *cli.Output) error {
	c, err := o.Open()
	if err != nil {
		return err
	}
	targets, err := o.targets(ctx, c)
	if err != nil {
		return err
	}
	progress, result := out.Progress(), revoked{Revoked: []string{}, DryRun: o.DryRun}
	for _, t := range targets {
		done, err := "deleted", error(nil)
		if o.DryRun {
			done = "would delete"
			_, err = t.client.Get(ctx, t.name, metav1.GetOptions{})
		} else {
			err = t.client.Delete(ctx, t.name, metav1.DeleteOptions{})
		}
		switch {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			return c.Errorf("%s: %w", t, err)
		}
		progress("%s %s", done, t)
		result.Revoked = append(result.Revoked, t.String())
	}
	if len(result.Revoked) == 0 {
		progress("there are no such credentials in namespaces %s and %s", v1alpha1.ReadersNamespace(o.Namespace), v1alpha1.PrivateNamespace(o.Namespace))
	}
	return out.Result(result)
}

// targets are what is deleted, in this order: the accounts of readers, what swapped tokens are bound to, and at last the
// Secret with the swapped token, so that the agent sees that and makes another.
func (o *RevokeOptions) targets(ctx context.Context, c *clusters.Client) ([]target, error) {
	own, err := c.Local(ctx)
	if err != nil {
		return nil, err
	}
	readers, private := v1alpha1.ReadersNamespace(o.Namespace), v1alpha1.PrivateNamespace(o.Namespace)
	accounts := c.Dynamic.Resource(clusters.Core("serviceaccounts")).Namespace(readers)
	var out []target
	if o.All {
		list, err := accounts.List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/managed-by=roster"})
		if err != nil {
			return nil, c.Errorf("list ServiceAccounts of namespace %s: %w", readers, err)
		}
		for i := range list.Items {
			out = append(out, target{"ServiceAccount", readers, list.Items[i].GetName(), accounts})
		}
	} else {
		id, err := o.clusterID(ctx, c, own)
		if err != nil {
			return nil, err
		}
		for _, account := range []string{v1alpha1.ReaderAccount(id), v1alpha1.LegacySwapAccount} {
			out = append(out, target{"ServiceAccount", readers, account, accounts})
		}
	}
	out = append(out, target{"Secret", private, v1alpha1.SwapSecret, c.Secrets(private)})
	secret := clusters.SecretRef(own)
	if secret.Name == "" || secret.Namespace != o.Namespace {
		return out, nil
	}
	have, err := c.Secrets(secret.Namespace).Get(ctx, secret.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return out, nil
	case err != nil:
		return nil, c.Errorf("read Secret %s/%s: %w", secret.Namespace, secret.Name, err)
	case have.GetLabels()["app.kubernetes.io/managed-by"] == "roster-agent" && clusters.CheckCredential(have) == nil:
		out = append(out, target{"Secret", secret.Namespace, secret.Name, c.Secrets(secret.Namespace)})
	}
	return out, nil
}

// clusterID is that of the cluster that is named.
func (o *RevokeOptions) clusterID(ctx context.Context, c *clusters.Client, own *unstructured.Unstructured) (string, error) {
	if own.GetName() == o.Name {
		return "", cli.Usagef("%s is the cluster of context %s itself, and reads itself without such a credential; --all ends those of every other one", o.Name, c.Context)
	}
	all, err := c.MemberObjects(ctx)
	if err != nil {
		return "", err
	}
	names := make([]string, 0, len(all))
	for i := range all {
		if all[i].GetName() == o.Name {
			return clusters.IDOf(&all[i]), nil
		}
		if all[i].GetName() != own.GetName() {
			names = append(names, all[i].GetName())
		}
	}
	if len(names) == 0 {
		return "", cli.Usagef("no cluster %q in context %s: cluster %s is alone there", o.Name, c.Context, own.GetName())
	}
	return "", cli.Usagef("no cluster %q in context %s; it lists: %s", o.Name, c.Context, strings.Join(names, ", "))
}
