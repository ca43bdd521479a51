// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/e2e/harness"
)

// A kind that no cluster knows is copied as soon as it is defined: agents watch CRDs for as long as they miss one.
// By then they ask only every now and then, so that it is this which wakes them.
func TestKindThatArrives(t *testing.T) {
	r := newRoom(t)
	late := schema.GroupVersionResource{Group: "parity.example.com", Version: "v1", Resource: "latecomers"}
	definition, rights, _ := strings.Cut(fmt.Sprintf(ownKinds, "latecomers", "Latecomer", "latecomer"), "---")
	for _, c := range r.Clusters[:3] {
		apply(t, c, rights)
	}
	r.rule(t, r.alpha, "late", "groupVersionKind: {group: parity.example.com, version: v1, kind: Latecomer}, rules: [{match: [{namespaces: [NS]}]}]")
	const missed = 30 * time.Second
	for _, c := range []*harness.Cluster{r.alpha, r.beta} {
		eventually(t, "the rule has missed the kind in "+c.Name, afterFault, func(ctx context.Context) error {
			if err := r.ruleSays(c, "late", "False", "install its CRD")(ctx); err != nil {
				return err
			}
			u, err := get(ctx, c, harness.Rules(), "", r.name+"-late")
			if err != nil {
				return err
			}
			since, err := time.Parse(time.RFC3339, fmt.Sprint(harness.Condition(u, "Ready")["lastTransitionTime"]))
			if err != nil || time.Since(since) < missed {
				return fmt.Errorf("since %v: %w", since, err)
			}
			return nil
		})
	}
	for _, c := range r.Clusters[:3] {
		apply(t, c, definition)
		kubectl(t, c, "wait", "--for=condition=Established", "--timeout=60s", "crd/latecomers.parity.example.com")
	}
	u := r.object(widgets, "first", "all", "one")
	u.SetKind("Latecomer")
	put(t, r.gamma, late, u)
	const soon = 10 * time.Second // of a machine that does nothing else; most of it is the API servers'
	slowest, began := r.beside(t), time.Now()
	for _, c := range []*harness.Cluster{r.alpha, r.beta} {
		eventually(t, "the first object of the kind is in "+c.Name, afterFault, copied(c, r.gamma, late, r.name, "first", "one"))
	}
	if took, most := time.Since(began), soon+slack*slowest(); took > most {
		t.Errorf("it took %s, more than %s", took, most)
	}
}
