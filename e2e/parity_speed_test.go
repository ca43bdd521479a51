// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/e2e/harness"
)

const (
	// promptly is what is promised of a machine that has nothing else to do.
	promptly = time.Second
	// slack is how many of the slowest writes of this machine, seen by a watch meanwhile, may come on top.
	slack = 10

	updates       = 40
	updatesWithin = 2 * time.Second
)

// Many updates of one object in a short time are summed up and converge at once.
func TestParityC18_ManyUpdatesConverge(t *testing.T) {
	r := newRoom(t)
	r.rule(t, r.alpha, "all", ofConfigMaps+"rules: [{"+forLabel("all")+"}]")
	put(t, r.gamma, configMaps, r.object(configMaps, "busy", "all", "0"))
	r.eventuallyCopied(t, configMaps, "busy", "0", r.alpha, r.beta)
	seen, err := r.beta.Watch(t.Context(), configMaps, r.name, "busy")
	if err != nil {
		t.Fatal(err)
	}
	slowest := r.beside(t)
	tick := time.NewTicker(updatesWithin / updates)
	defer tick.Stop()
	began := time.Now()
	for i := range updates {
		<-tick.C
		put(t, r.gamma, configMaps, r.object(configMaps, "busy", "all", fmt.Sprint(i+1)))
	}
	last := time.Now()
	states := 0
	end, err := seen.Until(t.Context(), "the last update", afterFault, func(u *unstructured.Unstructured) bool {
		states++
		return u != nil && valueOf(u) == fmt.Sprint(updates)
	})
	if err != nil {
		t.Fatal(err)
	}
	inTime(t, fmt.Sprintf("after %d updates in %s, which were %d states of the copy, the last one", updates, last.Sub(began), states), end.At.Sub(last), slowest())
	if states > updates {
		t.Errorf("the copy had %d states", states)
	}
}

// A namespace that comes late has its copies at once, however long it was waited for.
func TestParityC18_LateNamespaceIsNoticed(t *testing.T) {
	r := newRoom(t)
	late := r.name + "-late"
	r.rule(t, r.alpha, "all", ofWidgets+"rules: [{match: [{namespaces: [NS-late]}]}]")
	furnish(t, r.gamma, late)
	u := r.object(widgets, "early", "all", "one")
	u.SetNamespace(late)
	put(t, r.gamma, widgets, u)
	eventually(t, "the rule says which namespace is missing", within, r.ruleSays(r.beta, "all", "False", late))
	pass(t, 5*time.Second) // in which a mere back-off grows
	seen, err := r.beta.Watch(t.Context(), widgets, late, "early")
	if err != nil {
		t.Fatal(err)
	}
	slowest := r.beside(t)
	made := time.Now()
	furnish(t, r.beta, late)
	copied, err := seen.Until(t.Context(), "the copy", afterFault, harness.Present)
	if err != nil {
		t.Fatal(err)
	}
	inTime(t, "with its namespace the copy", copied.At.Sub(made), slowest())
}

// beside makes plain writes, one after the other, until slowest is called, which gives what the slowest of them took to be
// seen by a watch: what this machine gives meanwhile.
func (r *room) beside(t *testing.T) (slowest func() time.Duration) {
	t.Helper()
	i := -1
	return sampled(t, func(ctx context.Context) (time.Duration, error) {
		i++
		return r.plainWrite(ctx, fmt.Sprintf("plain-%d", i))
	})
}

// sampled does something again and again until slowest is called, which gives the longest that it took.
func sampled(t *testing.T, once func(ctx context.Context) (took time.Duration, err error)) (slowest func() time.Duration) {
	t.Helper()
	var most time.Duration
	var samples errgroup.Group
	enough := make(chan struct{})
	samples.Go(func() error {
		for {
			took, err := once(t.Context())
			if err != nil {
				return err
			}
			most = max(most, took)
			select {
			case <-enough:
				return nil
			case <-t.Context().Done(): // the test has failed, and nobody asks
				return t.Context().Err()
			case <-time.After(100 * time.Millisecond):
			}
		}
	})
	return func() time.Duration {
		close(enough)
		if err := samples.Wait(); err != nil {
			t.Fatal(err)
		}
		return most
	}
}

func (r *room) plainWrite(ctx context.Context, name string) (time.Duration, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w, err := r.beta.Watch(ctx, configMaps, r.name, name)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if _, err := r.beta.Dynamic.Resource(configMaps).Namespace(r.name).Create(ctx, r.object(configMaps, name, "none", "plain"), metav1.CreateOptions{}); err != nil {
		return 0, err
	}
	s, err := w.Until(ctx, "a plain write", within, harness.Present)
	return s.At.Sub(began), err
}

// inTime checks what something took against the budget, and what the machine gave meanwhile.
func inTime(t *testing.T, what string, took, slowest time.Duration) {
	t.Helper()
	t.Logf("%s took %s; the slowest of the plain writes beside it took %s", what, took, slowest)
	if most := min(promptly+slack*slowest, within); took > most {
		t.Errorf("more than %s", most)
	}
}
