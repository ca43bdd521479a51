// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package hosted

import (
	"context"
	"errors"
	"fmt"

	urfave "github.com/urfave/cli/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/hosted/objects"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/rights"
)

// DeleteCommand describes the command delete to the flag library.
func DeleteCommand(g *cli.Globals) *urfave.Command {
	return &urfave.Command{
		Name:      "delete",
		Usage:     "take away a registry that init has made",
		ArgsUsage: "NAME",
		Description: `Deletes what agentctl init has made in the cluster that --host-cluster-context leads to, and nothing else, and takes
the context NAME out of the kubeconfig. It asks nothing: --dry-run says what would go.

The volume with the data stays, and with it the CA and the namespace: agentctl init with the same NAME takes them up
again. With --delete-data they go, too. A namespace stays that somebody else has made, or has put something into, and one
of which it cannot be told what is in it, because an API is not available or may not be read.

Exit code: 0 done; 2 a flag is wrong; 1 it cannot be done, as when there is no such registry.`,
		Flags: append(hostFlags(),
			&urfave.BoolFlag{Name: "delete-data", Usage: "delete the volume with the data, the CA and the namespace, too"},
			&urfave.BoolFlag{Name: "dry-run", Usage: "say what would be deleted, and change nothing"},
		),
		Action: func(c *urfave.Context) error {
			place, err := placeOf(g, c)
			if err != nil {
				return err
			}
			return g.Run(c, &DeleteOptions{Place: place, Data: c.Bool("delete-data"), DryRun: c.Bool("dry-run")})
		},
	}
}

// DeleteOptions are which registry is deleted.
type DeleteOptions struct {
	Place

	Data   bool // the volume, the CA and the namespace as well
	DryRun bool
}

// part is an object of a registry.
type part struct {
	gvr    schema.GroupVersionResource
	object *unstructured.Unstructured
}

func (p part) String() string { return p.object.GetKind() + " " + p.object.GetName() }

// deletion is what goes and what stays. Its JSON is stable: fields are only ever added.
type deletion struct {
	Registry string   `json:"registry"`
	Deleted  []string `json:"deleted"`
	Kept     []string `json:"kept"`
}

// Run deletes the parts of a registry.
func (o *DeleteOptions) Run(ctx context.Context, out *cli.Output) error {
	host, err := o.open()
	if err != nil {
		return err
	}
	goes, stays, ca, err := o.sort(ctx, host)
	if err != nil {
		return err
	}
	needed := make([]rights.Right, 0, len(goes))
	for _, p := range goes {
		needed = append(needed, rights.Right{Verb: "delete", Group: p.gvr.Group, Resource: p.gvr.Resource, Namespace: p.object.GetNamespace()})
	}
	if err := checkRights(ctx, host, needed); err != nil {
		return err
	}
	done := deletion{Registry: o.Name, Deleted: []string{}, Kept: []string{}}
	removed, err := o.forget(ca) // first: with the CA gone, the context would not be known for the registry's
	if err != nil {
		return err
	}
	if removed {
		done.Deleted = append(done.Deleted, "context "+o.Name)
	}
	for _, p := range goes {
		if err := o.delete(ctx, host, p); err != nil {
			return host.Errorf("delete %s: %s; the same command again deletes the rest", p, clusters.Reason(err))
		}
		done.Deleted = append(done.Deleted, p.String())
	}
	for _, p := range stays {
		done.Kept = append(done.Kept, p.String())
	}
	return o.print(out, done)
}

// forget takes the context of the registry out of the kubeconfig, and says whether it was there.
func (o *DeleteOptions) forget(ca []byte) (bool, error) {
	config := o.contexts("")
	_, has, err := config.load(o.Name, ca)
	switch {
	case errors.Is(err, errTaken):
		return false, nil // it is of something else
	case err != nil || !has || o.DryRun:
		return has, err
	}
	return true, config.remove(o.Name, ca)
}

func (o *DeleteOptions) print(out *cli.Output, done deletion) error {
	if !out.ForPeople() {
		return out.Document(done)
	}
	deleted, kept := "deleted", "kept"
	if o.DryRun {
		deleted, kept = "would delete", "would keep"
	}
	for _, line := range done.Deleted {
		fmt.Fprintln(out.Stdout, deleted, line)
	}
	for _, line := range done.Kept {
		fmt.Fprintln(out.Stdout, kept, line)
	}
	return nil
}

// sort finds the parts of the registry, in the order in which they go, and its CA if that is there.
func (o *DeleteOptions) sort(ctx context.Context, host *clusters.Client) (goes, stays []part, ca []byte, err error) {
	var data []part
	volumes := 0
	for _, gvr := range []schema.GroupVersionResource{objects.StatefulSets(), objects.Services(), objects.Claims(), objects.Secrets()} {
		list, err := host.Dynamic.Resource(gvr).Namespace(o.Namespace).List(ctx, metav1.ListOptions{LabelSelector: o.Selector()})
		if err != nil {
			return nil, nil, nil, host.Errorf("%s", clusters.Reason(err))
		}
		for i := range list.Items {
			p := part{gvr, &list.Items[i]}
			if gvr == objects.Claims() {
				volumes++
			}
			if gvr == objects.Secrets() {
				if authority, err := authorityOf(p.object); err == nil {
					ca = authority.CertPEM()
				}
			}
			if gvr == objects.Claims() || gvr == objects.Secrets() {
				data = append(data, p)
			} else {
				goes = append(goes, p)
			}
		}
	}
	strange, err := o.unlabelled(ctx, host)
	if err != nil {
		return nil, nil, nil, err
	}
	namespace, err := host.Dynamic.Resource(objects.Namespaces()).Get(ctx, o.Namespace, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) || err == nil && !o.Mine(namespace):
	case err != nil:
		return nil, nil, nil, host.Errorf("%s", clusters.Reason(err))
	default:
		data = append(data, part{objects.Namespaces(), namespace})
	}
	switch {
	case len(goes)+len(data) == 0:
		return nil, nil, nil, host.Errorf("there is no registry %s in namespace %s: --host-namespace names another one; if a context of it is left, %s", o.Name, o.Namespace, o.wayOut())
	case volumes+len(strange) > 0 && !o.Data: // without a volume there is nothing that the rest would be kept for
		return goes, append(strange, data...), ca, nil
	}
	goes, stays, err = o.spare(ctx, host, append(goes, data...))
	return goes, append(strange, stays...), ca, err
}

// delete deletes one object, if it is still the one that was found.
func (o *DeleteOptions) delete(ctx context.Context, host *clusters.Client, p part) error {
	if o.DryRun {
		return nil
	}
	uid := p.object.GetUID()
	background := metav1.DeletePropagationBackground
	err := o.resource(host, p.gvr).Delete(ctx, p.object.GetName(), metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &uid}, PropagationPolicy: &background,
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
