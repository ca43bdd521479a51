// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
)

// printDryRun says what a swap would write. As documents it includes the credentials: that is what
// the user asked to see.
func printDryRun(out *cli.Output, swaps []*swap) error {
	var targets []*swapTarget
	for _, s := range swaps {
		targets = append(targets, s.targets[:]...)
	}
	if out.ForPeople() {
		for _, t := range targets {
			verb := "would be created"
			if t.rewrite {
				verb = "would be written again"
			}
			if t.unchanged {
				verb = "is there and works, it would be left as it is"
			}
			fmt.Fprintf(out.Stdout, "context %s: %s %s\n", t.to.Context, describe(t.secret), verb)
			fmt.Fprintf(out.Stdout, "context %s: %s %s\n", t.to.Context, describe(t.cluster), verb)
		}
		return nil
	}
	type written struct {
		Context string `json:"context"`
		Objects []any  `json:"objects"`
	}
	var all []written
	for _, t := range targets {
		w := written{Context: t.to.Context, Objects: []any{}}
		if !t.unchanged {
			for _, obj := range []*unstructured.Unstructured{t.secret, t.cluster} {
				w.Objects = append(w.Objects, obj.Object)
			}
		}
		all = append(all, w)
	}
	return out.Document(all)
}

// printJoined is the result for a program; a person has seen the progress.
func printJoined(out *cli.Output, swaps []*swap, took time.Duration) error {
	if out.ForPeople() {
		return nil
	}
	type member struct {
		Name      string `json:"name"`
		ClusterID string `json:"clusterID"`
		Context   string `json:"context"`
	}
	joined := struct {
		Clusters []member `json:"clusters"`
		Synced   bool     `json:"synced"`
		Seconds  float64  `json:"seconds"`
	}{Synced: true, Seconds: took.Round(time.Millisecond).Seconds()}
	sources := []*swapSource{swaps[0].sources[0]}
	for _, s := range swaps {
		sources = append(sources, s.sources[1])
	}
	for _, src := range sources {
		joined.Clusters = append(joined.Clusters, member{src.name(), src.id(), src.from.Context})
	}
	return out.Document(joined)
}

func describe(obj *unstructured.Unstructured) string {
	if ns := obj.GetNamespace(); ns != "" {
		return fmt.Sprintf("%s %s/%s", obj.GetKind(), ns, obj.GetName())
	}
	return fmt.Sprintf("%s %s", obj.GetKind(), obj.GetName())
}
