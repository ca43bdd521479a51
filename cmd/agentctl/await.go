// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// waitPeriod is a quarter of what a person notices; two small reads cost an API server nothing.
const waitPeriod = 200 * time.Millisecond

// waitError says that what was written did not take effect in time.
type waitError struct {
	After   time.Duration
	Missing []string // one line each
	Text    string   // "" for that of a swap
}

func (e *waitError) Error() string {
	if e.Text != "" {
		return e.Text
	}
	return fmt.Sprintf("the swap is done, but after %s the clusters are not synced:", e.After)
}

// awaitSynced waits until each side says of the other that it is synced.
func awaitSynced(ctx context.Context, halves [2]*half, pastes [2]*paste, timeout time.Duration, progress func(string, ...any)) error {
	deadline := time.NewTimer(timeout)
	defer deadline.Stop()
	tick := time.NewTicker(waitPeriod)
	defer tick.Stop()
	var last [2]view
	for {
		for i := range pastes {
			if last[i].ok {
				continue
			}
			v, err := look(ctx, pastes[i])
			if err != nil {
				v = unsynced("not readable now", oneLine(err.Error())) // an API server may be away for a moment
			}
			if v.short != last[i].short {
				progress("cluster %s on %s: %s", halves[i].name(), pastes[i].cluster.GetName(), v.short)
			}
			last[i] = v
			if v.refused != "" {
				return pastes[i].to.errorf("cluster %s is refused: %s", pastes[i].cluster.GetName(), v.refused)
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
			return &waitError{After: timeout, Missing: missing(halves, pastes, last)}
		}
	}
}

func missing(halves [2]*half, pastes [2]*paste, last [2]view) []string {
	var lines []string
	for i := range last {
		if last[i].ok {
			continue
		}
		for _, reason := range last[i].reasons {
			lines = append(lines, fmt.Sprintf("context %s: cluster %s says of %s: %s", pastes[i].to.Context, halves[i].name(), pastes[i].cluster.GetName(), reason))
		}
	}
	return lines
}

// view is what one cluster says of another.
type view struct {
	ok      bool
	short   string   // for progress
	reasons []string // when not ok: everything, never empty
	refused string   // that waiting is of no use, because its key was removed
}

func unsynced(short string, reasons ...string) view { return view{short: short, reasons: reasons} }

func look(ctx context.Context, p *paste) (view, error) {
	u, err := p.to.client.Resource(clusterResource()).Get(ctx, p.cluster.GetName(), metav1.GetOptions{})
	if err != nil {
		return view{}, err
	}
	return synced(u), nil
}

// synced reads the conditions. One that was observed on an older generation says nothing about what
// has just been pasted.
func synced(u *unstructured.Unstructured) view {
	c, err := typed(u)
	if err != nil {
		return unsynced("not readable", err.Error())
	}
	var reasons, words []string
	for _, kind := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionMember, v1alpha1.ConditionClustersSynced} {
		cond := condition(c, kind)
		switch {
		case cond == nil, cond.ObservedGeneration != 0 && cond.ObservedGeneration < c.Generation:
		case cond.Reason == v1alpha1.MemberRemoved:
			return view{short: "refused", reasons: []string{explain(cond)}, refused: oneLine(cond.Message)}
		case cond.Status != metav1.ConditionTrue:
			reasons = append(reasons, explain(cond))
			words = append(words, kind+"="+cond.Reason)
		case kind == v1alpha1.ConditionClustersSynced:
			return view{ok: true, short: "Synced"}
		}
	}
	if c.Status.Message != "" {
		reasons = append(reasons, oneLine(c.Status.Message))
	}
	if len(reasons) == 0 {
		return unsynced("waiting for its agent", "no agent has looked at the object yet; is the agent of this cluster running?")
	}
	if len(words) == 0 {
		words = reasons
	}
	return unsynced("waiting, "+strings.Join(words, " "), dedupe(reasons)...)
}

func condition(c *v1alpha1.Cluster, kind string) *metav1.Condition {
	for i := range c.Status.Conditions {
		if c.Status.Conditions[i].Type == kind {
			return &c.Status.Conditions[i]
		}
	}
	return nil
}

func explain(c *metav1.Condition) string {
	text := fmt.Sprintf("%s=%s", c.Type, c.Status)
	if c.Reason != "" {
		text += " (" + c.Reason + ")"
	}
	if c.Message != "" {
		text += ": " + oneLine(c.Message)
	}
	return text
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
