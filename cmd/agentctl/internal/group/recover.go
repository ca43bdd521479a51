// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package group is the command group: what is done with the agents of one cluster, where there are several.
package group

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

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/kube/api/agentrecord"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// Command describes the command to the flag library.
func Command(g *cli.Globals) *urfave.Command {
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
			Flags: []urfave.Flag{
				&urfave.DurationFlag{Name: "timeout", Value: time.Minute, Usage: "how long to wait until the survivor leads"},
				&urfave.StringFlag{Name: "survivor", Usage: "`HOST:PORT` of the agent to go on from, as its log and /readyz say it; without it, the one that holds most"},
				&urfave.BoolFlag{Name: "dry-run", Usage: "say what would be done, and change nothing"},
			},
			Action: func(c *urfave.Context) error {
				if err := cli.NoArguments(c); err != nil {
					return err
				}
				return g.Run(c, &RecoverOptions{
					Access: clusters.AccessOf(g), Namespace: g.Namespace.String(),
					Survivor: c.String("survivor"), DryRun: c.Bool("dry-run"), Timeout: c.Duration("timeout"),
				})
			},
		}},
		Action: cli.OnlySubcommands,
	}
}

// RecoverOptions are which agent goes on as the group.
type RecoverOptions struct {
	clusters.Access

	Namespace string // of the agents
	Survivor  string // HOST:PORT of the agent; "" for the one that holds most
	DryRun    bool
	Timeout   time.Duration // how long to wait until the survivor leads
}

// Validate checks what can be checked without a cluster.
func (o *RecoverOptions) Validate() error { return cli.CheckTimeout(o.Timeout) }

// Run tells the survivor to go on, and waits until it leads.
func (o *RecoverOptions) Run(ctx context.Context, out *cli.Output) error {
	client, err := o.Open()
	if err != nil {
		return err
	}
	namespace := v1alpha1.PrivateNamespace(o.Namespace)
	r := &recovery{
		options: o, client: client, secrets: client.Secrets(namespace), name: namespace + "/" + agentrecord.Name,
		out: out, progress: out.Progress(), start: time.Now(),
	}
	return r.run(ctx)
}

// recovery is one run of the command.
type recovery struct {
	options  *RecoverOptions
	client   *clusters.Client
	secrets  dynamic.ResourceInterface
	name     string // of the Secret that the agents write, with its namespace
	out      *cli.Output
	progress cli.Progress
	start    time.Time
	result   recovered
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

func (r *recovery) run(ctx context.Context) error {
	wanted := r.options.Survivor
	record, err := r.secrets.Get(ctx, agentrecord.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return r.client.Errorf("there is no Secret %s: the agents of this cluster form no group (--group-peers), or --namespace is another one", r.name)
	}
	if err != nil {
		return r.client.Errorf("read Secret %s: %w", r.name, err)
	}
	r.result = recovered{Survivor: secretText(record, agentrecord.Recovered), DryRun: r.options.DryRun}
	if told := r.result.Survivor; told != "" { // by this command, which somebody ended or which did not wait long enough
		if wanted != "" && wanted != told {
			return r.client.Errorf("agent %s was told before to go on as the group, and has not begun yet: start it, or wait; --survivor %s comes too late", told, wanted)
		}
		r.progress("agent %s was told before to go on as the group", told)
		return r.awaitSurvivor(ctx)
	}
	survivors, err := survivorsOf(record)
	if err != nil {
		return r.client.Errorf("Secret %s: %w", r.name, err)
	}
	address, err := r.choose(survivors, wanted)
	if err != nil {
		return err
	}
	r.result.Survivor = address
	for _, other := range slices.Sorted(maps.Keys(survivors)) {
		s := survivors[other]
		r.progress("agent %s has no leader; its log goes up to %d of term %d", other, s.Index, s.Term)
		if other != address {
			r.result.Others = append(r.result.Others, other)
		}
	}
	if r.options.DryRun {
		r.progress("would make a group of agent %s alone; all others would come to it with empty disks", address)
		return r.out.Result(r.result)
	}
	if err := awaitObjection(ctx); err != nil {
		return err
	}
	if err := r.tell(ctx, record, survivors[address].ServerID); err != nil {
		return err
	}
	return r.awaitSurvivor(ctx)
}

// tell writes which agent goes on. A record that has changed meanwhile is a conflict.
func (r *recovery) tell(ctx context.Context, record *unstructured.Unstructured, serverID string) error {
	setSecretData(record, map[string]string{
		agentrecord.Group: strings.ToLower(rand.Text()), agentrecord.Founder: serverID, agentrecord.Recovered: r.result.Survivor,
		agentrecord.Key: secretText(record, agentrecord.Key),
	})
	_, err := r.secrets.Update(ctx, record, metav1.UpdateOptions{FieldManager: clusters.FieldManager})
	if apierrors.IsConflict(err) {
		return r.client.Errorf("the agents have changed meanwhile: perhaps they have a leader again; look once more")
	}
	if err != nil {
		return r.client.Errorf("change Secret %s: %w", r.name, err)
	}
	r.progress("agent %s is to go on as the group", r.result.Survivor)
	return nil
}

// awaitSurvivor waits until the agent that was told to leads.
func (r *recovery) awaitSurvivor(ctx context.Context) error {
	if r.options.DryRun {
		return r.out.Result(r.result)
	}
	survivor := r.result.Survivor
	late := "agent " + survivor + " was told to go on as the group, but after %s does not lead:"
	wait := cli.Wait{Timeout: r.options.Timeout, Progress: r.progress}
	err := wait.For(ctx, late, func(ctx context.Context) ([]string, error) {
		now, err := r.secrets.Get(ctx, agentrecord.Name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		if secretText(now, agentrecord.Recovered) != "" {
			return []string{"agent " + survivor + " has not begun yet: is it running?"}, nil
		}
		return nil, nil
	})
	if err != nil {
		return err
	}
	r.progress("agent %s leads", survivor)
	r.result.Seconds = time.Since(r.start).Round(time.Millisecond).Seconds()
	return r.out.Result(r.result)
}

// choose finds the agent to go on from: the one that is wanted, else the one whose log goes farthest.
func (r *recovery) choose(survivors agentrecord.Survivors, wanted string) (string, error) {
	known := slices.Sorted(maps.Keys(survivors))
	if len(known) == 0 {
		return "", r.client.Errorf("no agent of this cluster says that its group has no leader; one without a leader says so after ten seconds, in its log and on /readyz")
	}
	if wanted != "" {
		if _, ok := survivors[wanted]; !ok {
			return "", cli.Usagef("--survivor %s: no such agent says that it has no leader; those that do: %s", wanted, strings.Join(known, ", "))
		}
		return wanted, nil
	}
	return slices.MaxFunc(known, func(a, b string) int {
		x, y := survivors[a], survivors[b]
		return cmp.Or(cmp.Compare(x.Term, y.Term), cmp.Compare(x.Index, y.Index))
	}), nil
}

func survivorsOf(record *unstructured.Unstructured) (agentrecord.Survivors, error) {
	text := secretText(record, agentrecord.SurvivorList)
	if text == "" {
		return nil, nil
	}
	var out agentrecord.Survivors
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		return nil, fmt.Errorf("key %s cannot be read: %w", agentrecord.SurvivorList, err)
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
