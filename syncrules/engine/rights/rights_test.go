// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package rights

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules/engine/place"
)

var configMaps = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}

// world is a Reviewer with what it asks.
type world struct {
	*Reviewer
	mu             sync.Mutex // guards the rest; a test holds it but while it sleeps
	lack           Lack
	err            error
	asked          int
	takes          time.Duration // a review
	verbs          []string
	needed         bool
	all            bool // namespaces are needed, and default
	allLack        Lack // where all are asked about
	changed, fewer int
}

// sleep lets everything happen that happens within a time.
func (w *world) sleep(d time.Duration) {
	w.mu.Unlock()
	defer w.mu.Lock()
	time.Sleep(d)
	synctest.Wait()
}

// inWorld runs a test with a Reviewer that runs.
func inWorld(t *testing.T, f func(*world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{needed: true}
		w.Reviewer = New(Options{
			Review: func(_ context.Context, _ string, _ schema.GroupVersionKind, namespaces, verbs []string) (Lack, error) {
				time.Sleep(w.takes)
				w.mu.Lock()
				defer w.mu.Unlock()
				w.asked++
				w.verbs = verbs
				if len(namespaces) == 0 {
					return w.allLack, w.err
				}
				return w.lack, w.err
			},
			Needed: func(Key) ([]string, bool) {
				w.mu.Lock()
				defer w.mu.Unlock()
				if w.all {
					return []string{"", "default"}, w.needed
				}
				return []string{"default"}, w.needed
			},
			Changed: func(fewer bool) {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.changed++
				if fewer {
					w.fewer++
				}
			},
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			w.Run(ctx)
			close(done)
		}()
		w.mu.Lock()
		f(w)
		w.mu.Unlock()
		cancel()
		<-done
	})
}

// A right that is missing is reviewed ever more seldom until it is granted, and then not any more.
func TestMissingRight(t *testing.T) {
	inWorld(t, func(w *world) {
		w.lack = Lack{Resource: schema.GroupResource{Resource: "configmaps"}, Verbs: []string{"create"}, Namespaces: []string{"default"}}
		w.Sync([]schema.GroupVersionKind{configMaps}, nil)
		w.sleep(time.Hour)
		if w.asked < 12 || w.asked > 22 || w.changed != 1 || w.fewer != 0 {
			t.Errorf("%d reviews in an hour, %d changes", w.asked, w.changed)
		}
		text := w.Here([]place.Scope{{GVK: configMaps, Namespace: "default"}})
		if !strings.Contains(text, "may not create configmaps in namespace default here") || !strings.Contains(text, v1alpha1.LabelControllerAggregated) {
			t.Errorf("text %q", text)
		}
		if text := w.Here([]place.Scope{{GVK: configMaps, Namespace: "other"}}); text != "" {
			t.Errorf("another namespace: %q", text)
		}
		w.lack = Lack{}
		w.sleep(MaxInterval)
		asked := w.asked
		w.sleep(time.Hour)
		if w.asked != asked || w.changed != 2 || w.fewer != 1 || w.Here([]place.Scope{{GVK: configMaps}}) != "" {
			t.Errorf("%d more reviews, %d changes, %d of them grants", w.asked-asked, w.changed, w.fewer)
		}
	})
}

// What one rule lacks in all namespaces, another lacks only where that is missing in those that it names.
func TestMissingRightInAllNamespaces(t *testing.T) {
	inWorld(t, func(w *world) {
		all, one := []place.Scope{{GVK: configMaps}}, []place.Scope{{GVK: configMaps, Namespace: "default"}}
		w.all, w.allLack = true, Lack{Resource: schema.GroupResource{Resource: "configmaps"}, Verbs: Write()}
		w.lack = Lack{Resource: w.allLack.Resource, Verbs: []string{"create"}, Namespaces: []string{"default"}}
		w.Sync([]schema.GroupVersionKind{configMaps}, nil)
		w.sleep(time.Second)
		if text := w.Here(one); !strings.Contains(text, "may not create configmaps in namespace default") {
			t.Errorf("one namespace: %q", text)
		}
		w.lack = Lack{}
		w.sleep(MaxInterval)
		if text := w.Here(one); text != "" || w.changed != 2 || w.fewer != 1 {
			t.Errorf("one namespace that is granted: %q, %d changes, %d of them grants", text, w.changed, w.fewer)
		}
		if text := w.Here(all); !strings.Contains(text, "may not get, list, watch, create, update, delete configmaps here") {
			t.Errorf("all namespaces: %q", text)
		}
		w.allLack = Lack{}
		w.sleep(MaxInterval)
		if text := w.Here(all); text != "" || w.fewer != 2 {
			t.Errorf("all namespaces that are granted: %q, %d grants", text, w.fewer)
		}
	})
}

// What was refused at a peer is reviewed with the verbs of a reader, again after an error, and not when nobody needs it.
func TestSuspect(t *testing.T) {
	inWorld(t, func(w *world) {
		key := Key{Cluster: "beta", GVK: configMaps}
		w.err = errors.New("cut")
		w.Suspect(key, Read(), false)
		w.sleep(0)
		if w.asked != 1 || !slices.Equal(w.verbs, Read()) {
			t.Fatalf("%d reviews of %v", w.asked, w.verbs)
		}
		w.err, w.lack = nil, Lack{Resource: schema.GroupResource{Resource: "configmaps"}, Verbs: Read()}
		w.sleep(firstInterval)
		if text := w.There("beta", "beta", place.Scope{GVK: configMaps}); w.asked != 2 || !strings.Contains(text, "cluster beta does not let this one get, list, watch configmaps;") {
			t.Errorf("%d reviews: %q", w.asked, text)
		}
		w.needed = false
		w.sleep(time.Hour)
		if w.asked != 2 || w.There("beta", "beta", place.Scope{GVK: configMaps}) != "" {
			t.Errorf("%d reviews of what nobody needs", w.asked)
		}
	})
}

// A review of writes covers the status once a write of it was refused; what is refused at once again waits.
func TestSuspectStatus(t *testing.T) {
	inWorld(t, func(w *world) {
		w.Sync([]schema.GroupVersionKind{configMaps}, nil)
		w.sleep(0)
		w.Suspect(Key{GVK: configMaps}, Write(), true)
		w.Suspect(Key{GVK: configMaps}, Write(), true)
		w.sleep(0)
		if w.asked != 1 {
			t.Errorf("%d reviews at once", w.asked)
		}
		w.sleep(firstInterval)
		if w.asked != 2 || !slices.Equal(w.verbs, append(Write(), UpdateStatus)) {
			t.Errorf("%d reviews, the last of %v", w.asked, w.verbs)
		}
		w.Sync(nil, []schema.GroupVersionKind{configMaps})
		if len(w.reviews) != 1 {
			t.Error("what is needed is forgotten")
		}
		w.Sync(nil, nil)
		if len(w.reviews) > 0 {
			t.Error("what no rule is about is kept")
		}
	})
}

// What is forgotten while it is reviewed stays so.
func TestReviewOfWhatIsForgotten(t *testing.T) {
	inWorld(t, func(w *world) {
		w.takes, w.lack = time.Second, Lack{Resource: schema.GroupResource{Resource: "configmaps"}, Verbs: Write()}
		w.Sync([]schema.GroupVersionKind{configMaps}, nil)
		w.sleep(0)
		w.Sync(nil, nil)
		w.sleep(time.Hour)
		if w.asked != 1 || w.changed > 0 || len(w.reviews) > 0 {
			t.Errorf("%d reviews, %d changes, %d are kept", w.asked, w.changed, len(w.reviews))
		}
	})
}
