// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// TestCopiesThatAreLeftBehind: the rule of a hostile member leaves copies behind in another cluster, as it deletes their sources and makes
// others, again and again. All of them have half of the room that there is for copies; those of a third member are made, and the rule says
// what is wrong. Once a person has deleted what is left behind, copies are made again.
func TestCopiesThatAreLeftBehind(t *testing.T) {
	const limit, size, atATime, rounds = 64 << 20, 600 << 10, 4, 6
	const room = limit / 100 * 90 / 5 // see agent/tuning and syncrules/engine/bounds
	r := newRoom(t)
	r.confine(t, limit, "left")
	name := func(n, i int) string { return fmt.Sprintf("left-%d-%d", n, i) }
	r.rule(t, r.gamma, "left", ofConfigMaps+"deletionPolicy: Orphan, targets: {matchLabels: {tier: left}}, rules: [{"+forLabel("left")+"}]")
	for n := range rounds {
		for i := range atATime {
			put(t, r.gamma, configMaps, r.object(configMaps, name(n, i), "left", strings.Repeat(fmt.Sprint(i), size)))
		}
		full := r.ruleSays(r.beta, "left", "False", "TooManyCopies")
		eventually(t, fmt.Sprintf("round %d: all are copied, or there is no room", n), afterFault, func(ctx context.Context) error {
			var errs []error
			for i := range atATime {
				_, err := get(ctx, r.beta, configMaps, r.name, name(n, i))
				errs = append(errs, err)
			}
			if err := errors.Join(errs...); err != nil && full(ctx) != nil {
				return err
			}
			return nil
		})
		if n == rounds-1 {
			break
		}
		for i := range atATime {
			r.drop(t, r.gamma, configMaps, name(n, i))
		}
		eventually(t, "what was copied is left behind", afterFault, r.ruleSays(r.beta, "left", "True", ""))
	}
	left := r.leftBehind(t)
	t.Logf("%d copies of %d KiB are there, and there is room for %d", left, size>>10, room/size)
	if most := room/2/size + atATime; left > most || left < 4 {
		t.Errorf("%d copies are there, want %d at most, and some", left, most)
	}
	eventually(t, "the rule says what to do", within, r.ruleSays(r.beta, "left", "False", "agentctl orphans list"))
	r.rule(t, r.alpha, "honest", ofConfigMaps+"rules: [{"+forLabel("honest")+"}]")
	put(t, r.alpha, configMaps, r.object(configMaps, "honest", "honest", "1"))
	eventually(t, "the copy of another cluster is there", afterFault, copied(r.beta, r.alpha, configMaps, r.name, "honest", "1"))

	r.expect(t, 0, []string{"orphans", "delete", "--all", "-n", r.name, "--context", "beta"}, "deleted")
	for i := range atATime {
		eventually(t, name(rounds-1, i)+" is copied", afterFault, present(r.beta, configMaps, r.name, name(rounds-1, i)))
	}
	eventually(t, "the rule is content", afterFault, r.ruleSays(r.beta, "left", "True", "Synced"))
}

// confine has the agent of beta, which is of this tier meanwhile, have so much memory.
func (r *room) confine(t *testing.T, limit int64, tier string) {
	t.Helper()
	label := func(value string) { kubectl(t, r.beta, "label", "--overwrite", "cluster", r.beta.Name, "tier"+value) }
	label("=" + tier)
	t.Cleanup(func() { // when the environment is as before
		label("-")
		if err := r.beta.RestartAgent(lasting(t)); err != nil {
			t.Error(err)
		}
	})
	t.Setenv("GOMEMLIMIT", fmt.Sprint(limit))
	if err := r.beta.RestartAgent(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.eventuallyWhole(t, afterFault)
}

// leftBehind is how many copies of gamma's objects beta has in the room.
func (r *room) leftBehind(t *testing.T) int {
	t.Helper()
	list, err := r.beta.Dynamic.Resource(configMaps).Namespace(r.name).List(lasting(t), metav1.ListOptions{LabelSelector: v1alpha1.LabelOwnerClusterID + "=" + clusterID(t, r.gamma)})
	if err != nil {
		t.Fatal(err)
	}
	return len(list.Items)
}
