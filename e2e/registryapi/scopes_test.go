// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package registryapi

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	view "github.com/roster-mesh/roster/kube/api/registry/v1alpha1"
)

var (
	steps = flag.Int("steps", 150, "writes beside four callers' lists and watches")
	fleet = flag.Int("clusters", 6, "Clusters that they are about")
	seed  = flag.Uint64("seed", 7, "what is written, and what callers are granted")
)

const (
	// stepsGranted is after how many writes grants change.
	stepsGranted = 500
	// watchSeconds is longer than a search takes: an API server ends a watch that does not say so after half an hour or more.
	watchSeconds = 3 * 60 * 60
)

const groupLabel = "clusterregistry.k8s.io/cluster-group"

// scope is what a caller is granted.
type scope struct {
	all           bool
	names, groups []string
}

func (s scope) rules() (out []rbacv1.PolicyRule) {
	if s.all {
		out = append(out, clusters(nil, "get"))
	}
	if len(s.names) > 0 {
		out = append(out, clusters(s.names, "get"))
	}
	if len(s.groups) > 0 {
		out = append(out, groups(s.groups, "get"))
	}
	return out
}

func (s scope) sees(name, group string) bool {
	return s.all || slices.Contains(s.names, name) || slices.Contains(s.groups, group)
}

// follower is a client with a watch.
type follower struct {
	caller string
	scope  scope
	has    map[string]string // name to group
	watch  watch.Interface
}

// fourCallers are callers with their watches, beside somebody who writes Clusters.
type fourCallers struct {
	*front
	random    *rand.Rand
	now       map[string]string // name to group
	followers []*follower
}

// testFourCallers: what a caller has of his list and his watch is what he may get, name by name, and he hears of nothing else,
// while Clusters come, go and change their group; and a watch ends when its caller is granted something else.
func (f *front) testFourCallers(t *testing.T) {
	c := &fourCallers{front: f, random: rand.New(rand.NewPCG(*seed, 8)), now: map[string]string{}}
	for i := range *fleet {
		f.removed(t, named(i))
	}
	for i := range 2 {
		c.put(t, i, "g1")
	}
	callers := map[string]scope{
		"every": {all: true}, "two-names": {names: []string{named(1), named(2)}}, "one-group": {groups: []string{"g1"}}, "none": {},
	}
	for caller, may := range callers { // it takes seconds until a grant counts: the same ones for all
		f.grant(t, caller, may.rules()...)
	}
	for caller, may := range callers {
		w := &follower{caller: caller}
		c.followers = append(c.followers, w)
		c.await(t, w, may)
		t.Cleanup(func() { w.watch.Stop() })
	}
	for step := range *steps {
		if step > 0 && step%stepsGranted == 0 {
			c.check(t)
			c.regrant(t)
			t.Logf("%d steps", step) // a search may be ended before it is through
		}
		c.step(t)
	}
	c.check(t)
}

func named(i int) string { return "four-" + strconv.Itoa(i) }

func (c *fourCallers) put(t *testing.T, i int, group string) {
	t.Helper()
	if _, err := c.shown(t, "").Update(t.Context(), cluster(named(i), group), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.now[named(i)] = group
}

// step writes one Cluster, and reads what has come of it by now.
func (c *fourCallers) step(t *testing.T) {
	t.Helper()
	i := c.random.IntN(*fleet)
	if _, there := c.now[named(i)]; there && c.random.IntN(3) == 0 {
		if err := c.shown(t, "").Delete(t.Context(), named(i), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		delete(c.now, named(i))
	} else {
		c.put(t, i, []string{"", "g1", "g2"}[c.random.IntN(3)])
	}
	for _, w := range c.followers {
		for heard := true; heard; {
			select {
			case e, ok := <-w.watch.ResultChan():
				if !ok {
					t.Fatalf("the watch of %s ended", w.caller)
				}
				w.hear(t, e)
			default:
				heard = false
			}
		}
	}
}

// await waits until a caller sees what he was granted, and begins his watch.
func (c *fourCallers) await(t *testing.T, w *follower, may scope) {
	t.Helper()
	w.scope = may
	var want []string
	for name, group := range c.now {
		if may.sees(name, group) {
			want = append(want, name)
		}
	}
	c.sees(t, w.caller, want...)
	eventually(t, "the rights of "+w.caller+" are settled", func(ctx context.Context) error {
		list, err := c.shown(t, w.caller).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		w.has = map[string]string{}
		for i := range list.Items {
			w.has[list.Items[i].Name] = list.Items[i].Labels[groupLabel]
		}
		w.watch, err = c.shown(t, w.caller).Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion, TimeoutSeconds: new(int64(watchSeconds))})
		return err // 410 at first
	})
}

// check compares what each caller has with what he may get.
func (c *fourCallers) check(t *testing.T) {
	t.Helper()
	for _, w := range c.followers {
		want := map[string]string{}
		for name, group := range c.now {
			got, err := c.shown(t, w.caller).Get(t.Context(), name, metav1.GetOptions{})
			if err == nil {
				want[name] = got.Labels[groupLabel]
			} else if !apierrors.IsNotFound(err) {
				t.Errorf("%s gets %s in %q: %v", w.caller, name, group, err)
			}
			if (err == nil) != w.scope.sees(name, group) {
				t.Errorf("%s, who may see %+v, gets %s in %q: %v", w.caller, w.scope, name, group, err)
			}
		}
		if got := c.listed(t, w.caller); !slices.Equal(got, slices.Sorted(maps.Keys(want))) {
			t.Errorf("%s lists %v and gets %v", w.caller, got, want)
		}
		deadline := time.After(within)
		for !maps.Equal(w.has, want) {
			select {
			case e, ok := <-w.watch.ResultChan():
				if !ok {
					t.Fatalf("the watch of %s ended, with %v of %v", w.caller, w.has, want)
				}
				w.hear(t, e)
			case <-deadline:
				t.Fatalf("%s has %v of %v", w.caller, w.has, want)
			}
		}
	}
}

// regrant gives one caller something else. His watch ends with 410, and those of the others go on.
func (c *fourCallers) regrant(t *testing.T) {
	t.Helper()
	w := c.followers[c.random.IntN(len(c.followers))]
	var may scope
	for same := true; same; same = fmt.Sprint(may) == fmt.Sprint(w.scope) {
		may = scope{all: c.random.IntN(6) == 0}
		for range c.random.IntN(4) {
			may.names = append(may.names, named(c.random.IntN(*fleet)))
		}
		slices.Sort(may.names)
		may.names = slices.Compact(may.names)
		may.groups = [][]string{nil, {"g1"}, {"g2"}, {"g1", "g2"}}[c.random.IntN(4)]
	}
	if may.all && w.scope.all {
		return // he sees what he saw
	}
	c.grant(t, w.caller, may.rules()...)
	if status := ended(t, w.watch); status.Code != http.StatusGone {
		t.Errorf("the watch of %s ended with %+v", w.caller, status)
	}
	c.await(t, w, may)
}

// hear is told of an event, which must go with what the follower has.
func (w *follower) hear(t *testing.T, e watch.Event) {
	t.Helper()
	c, ok := e.Object.(*view.Cluster)
	if !ok {
		t.Fatalf("%s hears %s %v", w.caller, e.Type, e.Object)
	}
	group := c.Labels[groupLabel]
	_, known := w.has[c.Name]
	if known != (e.Type != watch.Added) {
		t.Fatalf("%s: %s of %s, known: %v", w.caller, e.Type, c.Name, known)
	}
	if e.Type != watch.Deleted && !w.scope.sees(c.Name, group) { // of what is deleted he knew
		t.Fatalf("%s hears %s of %s in %q", w.caller, e.Type, c.Name, group)
	}
	if e.Type == watch.Deleted {
		delete(w.has, c.Name)
	} else {
		w.has[c.Name] = group
	}
}
