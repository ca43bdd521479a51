// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/roster-mesh/roster/e2e/harness"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/mesh/trust"
)

// TestOneMemberDoesNotRemoveAllOthers: whoever has the key of five removes all others, each by itself first. One of them ends by that, the
// hub; the others go on, say who did it, and have a person remove five. What that one confirms takes effect.
func TestOneMemberDoesNotRemoveAllOthers(t *testing.T) {
	fleet := five(t)
	g := &group{Fleet: fleet}
	one, two, three, four, last := fleet.Clusters[0], fleet.Clusters[1], fleet.Clusters[2], fleet.Clusters[3], fleet.Clusters[4]
	putSecret(t, three, "guarded", "one")
	apply(t, three, rule("guarded", "guarded"))
	eventually(t, "four has a copy of three's", afterFault, hasCopy(four, three, "guarded", "one"))
	key := privateKey(t, last)
	thief := signer(t, clusterID(t, last), key)
	var says [][]byte
	for _, c := range []*harness.Cluster{one, two, three, four} {
		at := three
		if c == three {
			at = four
		}
		r, err := thief.SignRemoval(clusterID(t, c), publicKey(t, at, c.Name), c.Name, last.Name, 0)
		if err != nil {
			t.Fatal(err)
		}
		says = append(says, r.Message())
	}
	if err := last.StopAgent(); err != nil {
		t.Fatal(err)
	}
	// Which of several takes effect follows from the order in which they come, which is another one in each member.
	for _, c := range []*harness.Cluster{two, three, four} {
		tryToSay(t, c, key, says[0])
		eventually(t, "one is removed in "+c.Name, within, absent(c, harness.Clusters(), "", "one"))
	}
	for i, c := range []*harness.Cluster{one, two, three, four} {
		tryToSay(t, c, key, append([][]byte{says[i]}, says...)...)
	}
	all := func(ctx context.Context) (err error) {
		for _, c := range []*harness.Cluster{two, three, four} {
			for _, other := range []*harness.Cluster{two, three, four} {
				err = errors.Join(err, lists(c, other.Name)(ctx), holds(c, other.Name, last.Name)(ctx))
			}
		}
		return err
	}
	eventually(t, "the others say that more is held", within, all)
	if err := four.RestartAgent(t.Context()); err != nil {
		t.Fatal(err)
	}
	stays(t, "they go on, also after a restart", quiet, func(ctx context.Context) error {
		return errors.Join(lists(two, "four")(ctx), lists(three, "four")(ctx), lists(four, "two")(ctx), lists(four, "three")(ctx))
	})
	eventually(t, "and hold what they held", within, all)
	putSecret(t, three, "guarded", "two")
	eventually(t, "four follows three", afterFault, hasCopy(four, three, "guarded", "two"))

	if out := agentctl(t, g, "removals", "list", "--context", "four"); !strings.Contains(out, "three") || !strings.Contains(out, "in effect") {
		t.Errorf("agentctl removals list:\n%s", out)
	}
	if out := agentctl(t, g, "removals", "confirm", "one", "--context", "four", "--dry-run"); !strings.Contains(out, "would be confirmed") {
		t.Errorf("the dry run says:\n%s", out)
	}
	t.Log(agentctl(t, g, "removals", "confirm", "one", "--contexts", "three,four"))
	t.Log(agentctl(t, g, "remove", "five", "--context", "three", "--keep-admitted", "--timeout", "30s"))
	for _, c := range []*harness.Cluster{two, four} {
		eventually(t, "five is removed in "+c.Name, within, absent(c, harness.Clusters(), "", "five"))
	}
	// Who strikes first is not immune: until somebody has confirmed that five is removed, what it ordered waits for a person.
	eventually(t, "the rest is held, still", within, holds(four, "three", clusterID(t, last)))
	t.Log(agentctl(t, g, "removals", "confirm", "five", "--context", "four"))
	eventually(t, "nobody has to do anything about the rest", afterFault, func(ctx context.Context) error {
		out, err := g.Agentctl(ctx, "removals", "list", "--context", "four")
		if err == nil && !strings.Contains(out, "its author is no member") {
			err = fmt.Errorf("it lists:\n%s", out)
		}
		if u, failed := get(ctx, four, harness.Clusters(), "", "four"); failed != nil || harness.ConditionTrue(u, v1alpha1.ConditionRemovalsInEffect) != nil {
			err = errors.Join(err, failed, errors.New("RemovalsInEffect is not True"))
		}
		return errors.Join(err, lists(four, "three")(ctx))
	})
	if out, err := g.Agentctl(t.Context(), "removals", "confirm", "three", "--context", "four"); err == nil {
		t.Errorf("what is ordered by no member is confirmed without its key:\n%s", out)
	}
	name := "three/" + trust.Fingerprint(publicKey(t, four, "three"))
	t.Log(agentctl(t, g, "removals", "confirm", name, "--context", "four", "-o", "yaml"))
	eventually(t, "what is confirmed takes effect", within, absent(four, harness.Clusters(), "", "three"))
}

// holds: the removal of a cluster by another one is held, as the own Cluster object says.
func holds(c *harness.Cluster, name, by string) func(context.Context) error {
	return func(ctx context.Context) error {
		u, err := get(ctx, c, harness.Clusters(), "", c.Name)
		if err != nil {
			return err
		}
		cond := harness.Condition(u, v1alpha1.ConditionRemovalsInEffect)
		text := fmt.Sprint(cond["message"])
		if cond["status"] != "False" || !strings.Contains(text, name+" (clusterID ") || !strings.Contains(text, "by "+by+" ") {
			return fmt.Errorf("RemovalsInEffect in %s is %v, %v: %s", c.Name, cond["status"], cond["reason"], text)
		}
		return nil
	}
}
