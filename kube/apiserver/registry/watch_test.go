// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/watch"

	view "github.com/roster-mesh/roster/kube/api/registry/v1alpha1"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/kube/apiserver/registry/rights"
)

// What a caller has of a watch is at each step what he may get, and he hears of nothing else, while groups change.
func TestWatchIsWhatGetAnswers(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	scopes := map[string]*rights.Scope{
		"all":        {All: true},
		"two names":  {Names: sets.New("c1", "c2")},
		"one group":  {Groups: sets.New("g1")},
		"both":       {Names: sets.New("c1"), Groups: sets.New("g0")},
		"all groups": {AllGroups: true},
		"none":       {},
	}
	stored := map[string]*v1alpha1.Cluster{}
	callers, has := map[string]*watcher{}, map[string]map[string]string{}
	for who, scope := range scopes {
		callers[who] = &watcher{scope: scope, shown: map[string]bool{}}
		has[who] = map[string]string{}
	}
	for step := range 10000 {
		e := somethingHappens(random, stored, step)
		if e.Object == nil {
			continue
		}
		for who, w := range callers {
			told, ok := w.event(e)
			if ok {
				hear(t, who, has[who], told)
			}
			want := map[string]string{}
			for name, c := range stored {
				if w.scope.Sees(name, c.Labels[rights.GroupLabel]) {
					want[name] = c.ResourceVersion
				}
			}
			if !maps.Equal(has[who], want) {
				t.Fatalf("step %d: caller %s has %v, and may get %v", step, who, has[who], want)
			}
		}
	}
}

// somethingHappens creates, changes or deletes a Cluster, and returns the event that the API server behind sends.
func somethingHappens(random *rand.Rand, stored map[string]*v1alpha1.Cluster, step int) watch.Event {
	name := fmt.Sprintf("c%d", random.IntN(6))
	have := stored[name]
	if have != nil && random.IntN(4) == 0 {
		delete(stored, name)
		gone := have.DeepCopy()
		gone.ResourceVersion = strconv.Itoa(step)
		return watch.Event{Type: watch.Deleted, Object: gone}
	}
	c := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: strconv.Itoa(step), Annotations: map[string]string{"secret": "of " + name}}}
	if group := random.IntN(4); group < 3 {
		c.Labels = map[string]string{rights.GroupLabel: fmt.Sprintf("g%d", group)}
	}
	stored[name] = c
	if have == nil {
		return watch.Event{Type: watch.Added, Object: c}
	}
	return watch.Event{Type: watch.Modified, Object: c}
}

// hear is a client: it fails on an event that does not go with what it has.
func hear(t *testing.T, who string, has map[string]string, e watch.Event) {
	t.Helper()
	c, ok := e.Object.(*view.Cluster)
	if !ok {
		t.Fatalf("%s hears of %T", who, e.Object)
	}
	_, known := has[c.Name]
	switch e.Type {
	case watch.Added, watch.Modified:
		if known != (e.Type == watch.Modified) {
			t.Fatalf("%s: %s of %s, known: %v", who, e.Type, c.Name, known)
		}
		has[c.Name] = c.ResourceVersion
	case watch.Deleted:
		if !known {
			t.Fatalf("%s hears that %s is gone, which he never saw", who, c.Name)
		}
		delete(has, c.Name)
	default:
		t.Fatalf("%s: %s", who, e.Type)
	}
}

// Who sees a Cluster no more is not told what it has become.
func TestLeavingTellsNothing(t *testing.T) {
	t.Parallel()
	w := &watcher{scope: &rights.Scope{Groups: sets.New("g1")}, shown: map[string]bool{"c1": true}}
	e, ok := w.event(watch.Event{Type: watch.Modified, Object: &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{
		Name: "c1", ResourceVersion: "7", Labels: map[string]string{rights.GroupLabel: "hidden"}, Annotations: map[string]string{"a": "hidden"},
	}}})
	c, isCluster := e.Object.(*view.Cluster)
	if !ok || e.Type != watch.Deleted || !isCluster || c.ResourceVersion != "7" || len(c.Labels)+len(c.Annotations) > 0 {
		t.Errorf("%v: %s %+v", ok, e.Type, e.Object)
	}
	w = &watcher{scope: w.scope, chosen: true}
	e, ok = w.event(watch.Event{Type: watch.Deleted, Object: &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{
		Name: "c1", ResourceVersion: "7", Labels: map[string]string{rights.GroupLabel: "g1"}, Annotations: map[string]string{"a": "hidden"},
	}}})
	if c, isCluster = e.Object.(*view.Cluster); !ok || !isCluster || c.ResourceVersion != "7" || len(c.Labels)+len(c.Annotations) > 0 {
		t.Errorf("chosen behind: %v: %s %+v", ok, e.Type, e.Object)
	}
}
