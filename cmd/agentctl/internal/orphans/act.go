// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package orphans

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
)

// verb is what is done to orphans.
type verb struct {
	name, done string
	deletes    bool
	run        func(ctx context.Context, c *clusters.Client, objects dynamic.ResourceInterface, obj *unstructured.Unstructured, dryRun []string) error
}

func adopt() verb {
	return verb{name: "adopt", done: "adopted", run: func(ctx context.Context, c *clusters.Client, objects dynamic.ResourceInterface, obj *unstructured.Unstructured, dryRun []string) error {
		return c.Change(ctx, objects, obj, func(there *unstructured.Unstructured) error {
			if !isOrphan(there) {
				return errors.New("it is no orphan any more: " + what(there))
			}
			if _, marked := there.GetAnnotations()[v1alpha1.AnnotationNotUnderstood]; marked && isRule(there) {
				return errors.New("its agent does not understand this rule: upgrade the agent first, or delete the rule")
			}
			syncrules.Adopt(there)
			return nil
		}, dryRun...)
	}}
}

func remove() verb {
	return verb{name: "delete", done: "deleted", deletes: true, run: func(ctx context.Context, _ *clusters.Client, objects dynamic.ResourceInterface, obj *unstructured.Unstructured, dryRun []string) error {
		uid, version := obj.GetUID(), obj.GetResourceVersion()
		return objects.Delete(ctx, obj.GetName(), metav1.DeleteOptions{DryRun: dryRun, Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}})
	}}
}

// ActOptions are which orphans are taken over or deleted.
type ActOptions struct {
	Options

	All    bool // rather than those that are named
	DryRun bool
	Yes    bool // also a rule whose end deletes copies that are no orphans
	verb   verb
}

// Validate checks what can be checked without a cluster.
func (o *ActOptions) Validate() error {
	switch {
	case o.All && len(o.Objects) > 0:
		return cli.Usagef("give objects or --all, not both")
	case !o.All && len(o.Objects) == 0:
		return cli.Usagef("orphans %s needs KIND/NAME, or --all", o.verb.name)
	}
	return o.Options.Validate()
}

// Run does it to one after the other, as far as it can.
func (o *ActOptions) Run(ctx context.Context, out *cli.Output) error {
	c, err := o.Open()
	if err != nil {
		return err
	}
	found, err := o.find(ctx, c)
	if err != nil {
		return err
	}
	word, done := o.verb.done, []*orphan{}
	if o.DryRun {
		word = "would be " + word
	}
	var skipped []*orphan
	if o.verb.deletes && o.All {
		found.Orphans, skipped = withoutSweeping(found.Orphans)
	}
	if o.verb.deletes && !o.All {
		if err := o.announce(ctx, found, out); err != nil {
			return err
		}
	}
	for _, one := range found.Orphans {
		var objects dynamic.ResourceInterface
		if objects, err = found.reader.Objects(ctx, one.object.GroupVersionKind(), one.Namespace); err == nil {
			err = o.verb.run(ctx, c, objects, one.object, clusters.DryRun(o.DryRun))
		}
		if err != nil {
			err = c.Errorf("%s cannot be %s: %s", one, o.verb.done, clusters.Reason(err))
			break
		}
		if done = append(done, one); out.ForPeople() {
			fmt.Fprintf(cli.Printable{To: out.Stdout}, "%s %s\n", one, word)
		}
	}
	for _, text := range found.Unknown {
		fmt.Fprintf(out.Stderr, "unknown: %s\n", text)
	}
	for _, one := range skipped {
		fmt.Fprintf(cli.Printable{To: out.Stderr}, "skipped: %s: more goes with it; name it to delete it\n", one)
	}
	if err == nil && len(found.Unknown) > 0 {
		err = cli.Answerf(cli.ExitUnknown, "there may be more: %s", cli.First(found.Unknown))
	}
	if out.ForPeople() {
		return err
	}
	if failed := out.Document(acted{o.verb.done, o.DryRun, done, found.Unknown, skipped}); failed != nil {
		return failed
	}
	return err
}

// acted is the result for a program. Its JSON is stable: fields are only ever added.
type acted struct {
	Done    string    `json:"done"`
	DryRun  bool      `json:"dryRun,omitempty"`
	Orphans []*orphan `json:"orphans"`
	Unknown []string  `json:"unknown"` // what could not be looked at, with --all
	Skipped []*orphan `json:"skipped,omitempty"`
}
