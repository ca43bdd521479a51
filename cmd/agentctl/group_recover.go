// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	urfave "github.com/urfave/cli/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

func groupCommand(g *globals) *urfave.Command {
	return &urfave.Command{
		Name:  "group",
		Usage: "look after the agents of one cluster, where there are several",
		Subcommands: []*urfave.Command{{
			Name:  "recover",
			Usage: "make a group of one survivor, when most agents of the cluster are lost with their disks",
			Description: `The agents of one cluster need most of them to be up. When the others come back, they go on by themselves, and
nothing needs to be done. Only when their disks are lost for good does this command make a group of the one
agent that is left: the others are taken in again as they come, with empty disks, and one that comes back with
its old disk after all puts that aside. What the survivor does not hold is read again from the API server and
from the other clusters.

It is refused while no agent says that the group has no leader, which takes ten seconds. A leader that some of
them do not reach objects within three seconds, which the command waits for; one that does not reach the API
server cannot object: see that there is none.

Run again before the survivor has begun, the command waits for it.

Exit code: 0 the survivor leads; 3 asked for, and it does not lead within --timeout; 1 it cannot be done.`,
			Flags: append(endFlags("the survivor leads"),
				&urfave.StringFlag{Name: "survivor", Usage: "`HOST:PORT` of the agent to go on from, as its log and /readyz say it; without it, the one that holds most"},
				&urfave.BoolFlag{Name: "dry-run", Usage: "say what would be done, and change nothing"}),
			Action: func(c *urfave.Context) error {
				if err := noArguments(c); err != nil {
					return err
				}
				o, err := endOptionsOf(c, g)
				if err != nil {
					return err
				}
				return o.recoverGroup(c.Context, v1alpha1.PrivateNamespace(g.Namespace.String()), c.String("survivor"))
			},
		}},
		Action: func(c *urfave.Context) error {
			if c.Args().Present() {
				return usagef("unknown command %q; `agentctl group --help` lists the commands", "group "+c.Args().First())
			}
			return urfave.ShowSubcommandHelp(c)
		},
	}
}

// recovered is what the command prints. Its JSON is stable: fields are only ever added.
type recovered struct {
	Survivor string   `json:"survivor"`
	Others   []string `json:"othersWithoutLeader,omitempty"`
	DryRun   bool     `json:"dryRun,omitempty"`
	Seconds  float64  `json:"seconds,omitempty"`
}

// objectWithin is how long a leader has to take back what agents say that do not reach it: several times the pause
// between two of its looks at them.
const objectWithin = 3 * time.Second

// awaitObjection lets that time pass: a change of the record meanwhile makes the update a conflict.
func awaitObjection(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(objectWithin):
		return nil
	}
}

func (o endOptions) recoverGroup(ctx context.Context, namespace, wanted string) error {
	start := time.Now()
	progress := newProgress(o.stdout, o.stderr, o.output, start)
	secrets := o.side.client.Resource(coreResource("secrets")).Namespace(namespace)
	record, err := secrets.Get(ctx, v1alpha1.AgentsSecret, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return o.side.errorf("there is no Secret %s/%s: the agents of this cluster are no group (--group-peers), or --namespace is another one", namespace, v1alpha1.AgentsSecret)
	}
	if err != nil {
		return o.side.errorf("read Secret %s/%s: %w", namespace, v1alpha1.AgentsSecret, err)
	}
	out := recovered{Survivor: secretText(record, v1alpha1.AgentsRecovered), DryRun: o.dryRun}
	if out.Survivor != "" { // by this command, which somebody ended or which did not wait long enough
		if wanted != "" && wanted != out.Survivor {
			return o.side.errorf("agent %s was told before to go on as the group, and has not begun yet: start it, or wait; --survivor %s comes too late", out.Survivor, wanted)
		}
		progress("agent %s was told before to go on as the group", out.Survivor)
		return o.awaitSurvivor(ctx, secrets, out, progress, start)
	}
	survivors, err := survivorsOf(record)
	if err != nil {
		return o.side.errorf("Secret %s/%s: %w", namespace, v1alpha1.AgentsSecret, err)
	}
	address, err := o.chooseSurvivor(survivors, wanted)
	if err != nil {
		return err
	}
	out.Survivor = address
	for _, other := range slices.Sorted(maps.Keys(survivors)) {
		s := survivors[other]
		progress("agent %s has no leader; its log goes up to %d of term %d", other, s.Index, s.Term)
		if other != address {
			out.Others = append(out.Others, other)
		}
	}
	if o.dryRun {
		progress("would make a group of agent %s alone; all others would come to it with empty disks", address)
		return o.printRecovered(out)
	}
	if err := awaitObjection(ctx); err != nil {
		return err
	}
	setSecretData(record, map[string]string{
		v1alpha1.AgentsGroup: strings.ToLower(rand.Text()), v1alpha1.AgentsFounder: survivors[address].ServerID, v1alpha1.AgentsRecovered: address,
		v1alpha1.AgentsKey: secretText(record, v1alpha1.AgentsKey),
	})
	if _, err := secrets.Update(ctx, record, metav1.UpdateOptions{FieldManager: "agentctl"}); apierrors.IsConflict(err) {
		return o.side.errorf("the agents have changed meanwhile: perhaps they have a leader again; look once more")
	} else if err != nil {
		return o.side.errorf("change Secret %s/%s: %w", namespace, v1alpha1.AgentsSecret, err)
	}
	progress("agent %s is to go on as the group", address)
	return o.awaitSurvivor(ctx, secrets, out, progress, start)
}

// awaitSurvivor waits until the agent that was told to leads.
func (o endOptions) awaitSurvivor(ctx context.Context, secrets dynamic.ResourceInterface, out recovered, progress func(string, ...any), start time.Time) error {
	if o.dryRun {
		return o.printRecovered(out)
	}
	late := "agent " + out.Survivor + " was told to go on as the group, but after %s does not lead:"
	err := o.await(ctx, late, progress, func(ctx context.Context) ([]string, error) {
		now, err := secrets.Get(ctx, v1alpha1.AgentsSecret, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		if secretText(now, v1alpha1.AgentsRecovered) != "" {
			return []string{"agent " + out.Survivor + " has not begun yet: is it running?"}, nil
		}
		return nil, nil
	})
	if err != nil {
		return err
	}
	progress("agent %s leads", out.Survivor)
	out.Seconds = time.Since(start).Round(time.Millisecond).Seconds()
	return o.printRecovered(out)
}

// chooseSurvivor finds the agent to go on from: the one that is wanted, else the one whose log goes farthest.
func (o endOptions) chooseSurvivor(survivors v1alpha1.AgentSurvivors, wanted string) (string, error) {
	known := slices.Sorted(maps.Keys(survivors))
	if len(known) == 0 {
		return "", o.side.errorf("no agent of this cluster says that its group has no leader; one without a leader says so after ten seconds, in its log and on /readyz")
	}
	if wanted != "" {
		if _, ok := survivors[wanted]; !ok {
			return "", usagef("--survivor %s: no such agent says that it has no leader; those that do: %s", wanted, strings.Join(known, ", "))
		}
		return wanted, nil
	}
	return slices.MaxFunc(known, func(a, b string) int {
		x, y := survivors[a], survivors[b]
		return cmp.Or(cmp.Compare(x.Term, y.Term), cmp.Compare(x.Index, y.Index))
	}), nil
}

func (o endOptions) printRecovered(r recovered) error {
	if o.output == "table" {
		return nil // the progress has told it
	}
	return printDocument(o.stdout, o.output, r)
}

func survivorsOf(record *unstructured.Unstructured) (v1alpha1.AgentSurvivors, error) {
	text := secretText(record, v1alpha1.AgentsSurvivors)
	if text == "" {
		return nil, nil
	}
	var out v1alpha1.AgentSurvivors
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		return nil, fmt.Errorf("key %s cannot be read: %w", v1alpha1.AgentsSurvivors, err)
	}
	return out, nil
}

// secretText is what a Secret has under a key.
func secretText(secret *unstructured.Unstructured, key string) string {
	encoded, _, _ := unstructured.NestedString(secret.Object, "data", key)
	text, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return ""
	}
	return string(text)
}

// setSecretData replaces all that a Secret has.
func setSecretData(secret *unstructured.Unstructured, values map[string]string) {
	data := map[string]any{}
	for key, value := range values {
		data[key] = base64.StdEncoding.EncodeToString([]byte(value))
	}
	secret.Object["data"] = data
}
