// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/e2e/harness"
)

// While the owner is down, what another peer lacks, or what a rule of another peer says, deletes no copy.
func TestParityC01_OwnerDownCopiesFrozen(t *testing.T) {
	r := newRoom(t)
	r.rule(t, r.alpha, "kept", ofConfigMaps+"rules: [{"+forLabel("kept")+"}]")
	put(t, r.gamma, configMaps, r.object(configMaps, "kept", "kept", "one"))
	r.eventuallyCopied(t, configMaps, "kept", "one", r.alpha, r.beta)

	up := r.down(t, r.gamma)
	frozen := r.asIs(t, configMaps, "kept", r.alpha, r.beta)
	// Rules of beta, which has no such object: one that does not match it, and one that would.
	r.rule(t, r.beta, "other", ofConfigMaps+"rules: [{"+forLabel("other")+"}]")
	r.rule(t, r.beta, "same", ofConfigMaps+"rules: [{match: [{namespaces: [NS], content: [{key: data.v, value: one}]}]}]")
	for i, label := range []string{"kept", "other"} {
		marker := fmt.Sprintf("marker-%d", i)
		put(t, r.beta, configMaps, r.object(configMaps, marker, label, "two"))
		eventually(t, marker+" of beta is in alpha", afterFault, copied(r.alpha, r.beta, configMaps, r.name, marker, "two"))
	}
	frozen(t)
	// A reader that starts anew knows the copy only.
	without(t, r.alpha, func() { put(t, r.beta, configMaps, r.object(configMaps, "marker-2", "kept", "two")) })
	eventually(t, "marker-2 of beta is in alpha", afterFault, copied(r.alpha, r.beta, configMaps, r.name, "marker-2", "two"))
	frozen(t)
	put(t, r.beta, configMaps, r.object(configMaps, "marker-0", "none", "three")) // stops matching, which deletes its copy
	r.eventuallyGone(t, configMaps, "marker-0", r.alpha)
	frozen(t)

	up()
	put(t, r.gamma, configMaps, r.object(configMaps, "kept", "kept", "two"))
	r.eventuallyCopied(t, configMaps, "kept", "two", r.alpha, r.beta)
}

// While the owner is down, peers whose copies differ do not overwrite each other.
func TestParityC02_OwnerDownNoOverwriting(t *testing.T) {
	r := newRoom(t)
	r.rule(t, r.alpha, "all", ofConfigMaps+"rules: [{"+forLabel("all")+"}]")
	put(t, r.gamma, configMaps, r.object(configMaps, "torn", "all", "one"))
	r.eventuallyCopied(t, configMaps, "torn", "one", r.alpha, r.beta)

	up := r.down(t, r.gamma)
	// Both are changed behind their agents' backs, which know nothing of the owner's object after that.
	without(t, r.alpha, func() {
		without(t, r.beta, func() {
			r.patch(t, r.alpha, configMaps, "torn", `{"data":{"v":"of alpha"}}`)
			r.patch(t, r.beta, configMaps, "torn", `{"data":{"v":"of beta"}}`)
		})
	})
	exchange := func(marker string) {
		put(t, r.alpha, configMaps, r.object(configMaps, marker+"-of-alpha", "all", marker))
		put(t, r.beta, configMaps, r.object(configMaps, marker+"-of-beta", "all", marker))
		eventually(t, marker+" from alpha to beta", afterFault, copied(r.beta, r.alpha, configMaps, r.name, marker+"-of-alpha", marker))
		eventually(t, marker+" from beta to alpha", afterFault, copied(r.alpha, r.beta, configMaps, r.name, marker+"-of-beta", marker))
	}
	exchange("first")
	settled := r.asIs(t, configMaps, "torn", r.alpha, r.beta)
	for c, own := range map[*harness.Cluster]string{r.alpha: "of alpha", r.beta: "of beta"} {
		if u, err := get(t.Context(), c, configMaps, r.name, "torn"); err != nil || valueOf(u) != own && valueOf(u) != "one" {
			t.Errorf("the copy in %s is neither the owner's nor its own: %v %v", c.Name, u, err)
		}
	}
	exchange("second")
	settled(t)
	// A copy changed while its agent looks: left alone, or restored to the owner's, but not to another copy.
	r.patch(t, r.alpha, configMaps, "torn", `{"data":{"v":"of alpha again"}}`)
	exchange("third")
	if u, err := get(t.Context(), r.beta, configMaps, r.name, "torn"); err != nil || valueOf(u) != "of beta" && valueOf(u) != "one" {
		t.Errorf("the copy in beta followed the one in alpha: %v %v", u, err)
	}
	eventually(t, "the rule reports that the owner is out of reach", afterFault, r.ruleSays(r.beta, "all", "False", "gamma"))

	up()
	r.eventuallyCopied(t, configMaps, "torn", "one", r.alpha, r.beta)
}

// The same name born in two clusters: each keeps its own, a third one has the copy of one of them, which one
// does not depend on luck, and all three say so.
func TestParityC21_SameNameTwice(t *testing.T) {
	r := newRoom(t)
	first, second := r.alpha, r.gamma
	if less(t, second, first) {
		first, second = second, first
	}
	// Both are there before the rule: the smaller clusterID wins.
	put(t, second, configMaps, r.object(configMaps, "before", "all", "of the second"))
	put(t, first, configMaps, r.object(configMaps, "before", "all", "of the first"))
	// Only the second is: it keeps what it won.
	put(t, second, configMaps, r.object(configMaps, "stable", "all", "of the second"))
	// GitOps: the same in both is no conflict.
	put(t, second, configMaps, r.object(configMaps, "equal", "all", "same"))
	put(t, first, configMaps, r.object(configMaps, "equal", "all", "same"))
	r.rule(t, r.beta, "all", ofConfigMaps+"rules: [{"+forLabel("all")+"}]")
	eventually(t, "the second's object is in beta", within, copied(r.beta, second, configMaps, r.name, "stable", "of the second"))
	put(t, first, configMaps, r.object(configMaps, "stable", "all", "of the first"))
	eventually(t, "beta has the first's object", within, copied(r.beta, first, configMaps, r.name, "before", "of the first"))
	for _, c := range r.Clusters[:3] {
		eventually(t, "two conflicts are reported in "+c.Name, within, r.conflicts(c, "all", 2))
	}
	own := []func(*testing.T){r.asIs(t, configMaps, "before", r.Clusters[:3]...), r.asIs(t, configMaps, "stable", r.Clusters[:3]...), r.asIs(t, configMaps, "equal", first, second)}
	// Not even a restart turns it over.
	without(t, r.beta, func() { put(t, first, configMaps, r.object(configMaps, "marker", "all", "two")) })
	eventually(t, "the marker is in beta", afterFault, copied(r.beta, first, configMaps, r.name, "marker", "two"))
	eventually(t, "and the conflicts are reported again", afterFault, r.conflicts(r.beta, "all", 2))
	for _, unchanged := range own {
		unchanged(t)
	}
	// One of two goes away: the other takes its place, and the conflict is over.
	r.drop(t, first, configMaps, "before")
	for _, c := range []*harness.Cluster{r.beta, first} {
		eventually(t, "the second's object is in "+c.Name, afterFault, copied(c, second, configMaps, r.name, "before", "of the second"))
	}
	for _, c := range r.Clusters[:3] {
		eventually(t, "one conflict is left in "+c.Name, within, r.conflicts(c, "all", 1))
	}
}

func less(t *testing.T, a, b *harness.Cluster) bool {
	t.Helper()
	x, err := a.ID(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	y, err := b.ID(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return x < y
}

// conflicts: the rule's status counts so many in the cluster, and says so in words when there are any.
func (r *room) conflicts(c *harness.Cluster, suffix string, want int64) func(context.Context) error {
	return func(ctx context.Context) error {
		u, err := get(ctx, c, harness.Rules(), "", r.name+"-"+suffix)
		if err != nil {
			return err
		}
		if n, _, _ := unstructured.NestedInt64(u.Object, "status", "conflicts"); n != want {
			return fmt.Errorf("in %s: %d conflicts, not %d: %v", c.Name, n, want, u.Object["status"])
		}
		if want > 0 {
			return r.ruleSays(c, suffix, "False", "Conflict")(ctx)
		}
		return nil
	}
}
