// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// awaitSynced waits until each side says of the other that it is synced.
func awaitSynced(ctx context.Context, sources [2]*swapSource, targets [2]*swapTarget, timeout time.Duration, progress cli.Progress) error {
	deadline := time.NewTimer(timeout)
	defer deadline.Stop()
	tick := time.NewTicker(cli.WaitPeriod)
	defer tick.Stop()
	var last [2]syncState
	for {
		for i := range targets {
			if last[i].ok {
				continue
			}
			v, err := readState(ctx, targets[i])
			if err != nil {
				v = unsynced("not readable now", cli.OneLine(err.Error())) // an API server may be away for a moment
			}
			if v.short != last[i].short {
				progress("cluster %s on %s: %s", sources[i].name(), targets[i].cluster.GetName(), v.short)
			}
			last[i] = v
			if v.refused != "" {
				return targets[i].to.Errorf("cluster %s is refused: %s", targets[i].cluster.GetName(), v.refused)
			}
		}
		if last[0].ok && last[1].ok {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("interrupted; the swap is done, and the agents go on by themselves")
		case <-deadline.C:
			return &cli.TimeoutError{Text: fmt.Sprintf("the swap is done, but after %s the clusters are not synced:", timeout), Missing: missing(sources, targets, last)}
		}
	}
}

func missing(sources [2]*swapSource, targets [2]*swapTarget, last [2]syncState) []string {
	var lines []string
	for i := range last {
		if last[i].ok {
			continue
		}
		for _, reason := range last[i].reasons {
			lines = append(lines, fmt.Sprintf("context %s: cluster %s says of %s: %s", targets[i].to.Context, sources[i].name(), targets[i].cluster.GetName(), reason))
		}
	}
	return lines
}

// syncState is what one cluster says of another.
type syncState struct {
	ok      bool
	short   string   // for progress
	reasons []string // when not ok: everything, never empty
	refused string   // that waiting is of no use, because its key was removed
}

func unsynced(short string, reasons ...string) syncState {
	return syncState{short: short, reasons: reasons}
}

func readState(ctx context.Context, t *swapTarget) (syncState, error) {
	u, err := t.to.Dynamic.Resource(clusters.ClusterResource()).Get(ctx, t.cluster.GetName(), metav1.GetOptions{})
	if err != nil {
		return syncState{}, err
	}
	return synced(u, t.generation), nil
}

// synced reads the conditions. One that was observed on a generation before written says nothing about what has just been
// written. Later ones are of the agent, which brings the object up to date with what the peer publishes.
func synced(u *unstructured.Unstructured, written int64) syncState {
	c, err := clusters.DecodeCluster(u)
	if err != nil {
		return unsynced("not readable", err.Error())
	}
	var reasons, words []string
	for _, kind := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionMember, v1alpha1.ConditionClustersSynced} {
		cond := clusters.Condition(c, kind)
		switch {
		case cond == nil, cond.ObservedGeneration != 0 && cond.ObservedGeneration < written:
		case cond.Reason == v1alpha1.MemberRemoved:
			return syncState{short: "refused", reasons: []string{clusters.Explain(cond)}, refused: cli.OneLine(cond.Message)}
		case cond.Status != metav1.ConditionTrue:
			reasons = append(reasons, clusters.Explain(cond))
			words = append(words, kind+"="+cond.Reason)
		case kind == v1alpha1.ConditionClustersSynced:
			return syncState{ok: true, short: "Synced"}
		}
	}
	if c.Status.Message != "" {
		reasons = append(reasons, cli.OneLine(c.Status.Message))
	}
	if len(reasons) == 0 {
		return unsynced("waiting for its agent", "no agent has looked at the object yet; is the agent of this cluster running?")
	}
	if len(words) == 0 {
		words = reasons
	}
	return unsynced("waiting, "+strings.Join(words, " "), dedupe(reasons)...)
}

// dedupe drops a reason that says no more than one before it: a status message often repeats a condition,
// and one condition another.
func dedupe(in []string) []string {
	var out []string
	for _, s := range in {
		_, text, found := strings.Cut(s, "=")
		if _, rest, ok := strings.Cut(text, " "); found && ok {
			text = rest
		} else {
			text = s
		}
		if !slices.ContainsFunc(out, func(earlier string) bool { return strings.Contains(earlier, text) }) {
			out = append(out, s)
		}
	}
	return out
}
