// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package namespaces

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules/engine/place"
	"github.com/roster-mesh/roster/syncrules/engine/problem"
)

// Max is how many namespaces there may be at a time that agents of this cluster created for one rule. A
// template may name another one for each object, and who makes a rule need not be somebody of this cluster.
const Max = 250

// AnnotationCreatedFor names, on a namespace that an agent created, the rules whose copies needed it. Such a
// namespace is no copy: nobody maintains it, and no agent deletes it.
const AnnotationCreatedFor = v1alpha1.Prefix + "created-for-rule"

// Request creates an object.
type Request func(context.Context, *unstructured.Unstructured) (*unstructured.Unstructured, error)

const (
	labelManagedBy = "app.kubernetes.io/managed-by"
	managedByAgent = "roster-agent"
)

// createdNamespaces is the Sink of the watch of the namespaces that agents created here, which runs while rules may
// create some. Their number is not remembered otherwise, so a restart changes nothing. Engine.mu guards it.
type createdNamespaces struct {
	n     *Namespaces
	stop  func()
	known bool                // a list was complete
	rules map[string][]string // by namespace
}

// superviseCreatedLocked watches what was created while rules may create more.
func (n *Namespaces) superviseCreatedLocked(watch Watch, creates bool) {
	switch {
	case !creates && n.created != nil:
		n.created.stop()
		n.created = nil
	case creates && n.created == nil:
		w := &createdNamespaces{n: n, rules: map[string][]string{}}
		n.created = w
		w.stop = watch(place.Scope{GVK: Kind(), LabelSelector: labelManagedBy + "=" + managedByAgent}, w)
	}
}

// Replace implements Sink.
func (w *createdNamespaces) Replace(objs []*unstructured.Unstructured, _ string) {
	rules := make(map[string][]string, len(objs))
	for _, obj := range objs {
		rules[obj.GetName()] = createdFor(obj)
	}
	w.n.e.Lock.Lock()
	defer w.n.e.Lock.Unlock()
	w.rules, w.known = rules, true
	w.n.roomLocked()
}

// Upsert implements Sink.
func (w *createdNamespaces) Upsert(obj *unstructured.Unstructured) {
	w.n.e.Lock.Lock()
	defer w.n.e.Lock.Unlock()
	w.rules[obj.GetName()] = createdFor(obj)
}

// Delete implements Sink. It is called, too, for one whose label was taken away: that is not the agent's any more.
func (w *createdNamespaces) Delete(_, name string, _ *unstructured.Unstructured) {
	w.n.e.Lock.Lock()
	defer w.n.e.Lock.Unlock()
	delete(w.rules, name)
	w.n.roomLocked()
}

// Health implements Sink.
func (*createdNamespaces) Health(error) {}

func createdFor(namespace *unstructured.Unstructured) []string {
	return strings.Split(namespace.GetAnnotations()[AnnotationCreatedFor], ",")
}

// roomLocked wakes the copies that may be waiting for room.
func (n *Namespaces) roomLocked() {
	n.news++
	for _, waiters := range n.waiting {
		for k := range waiters {
			n.e.RetryLocked(k, problem.ReasonNamespaceLimit)
		}
	}
}

// reserve counts a namespace that is about to be created for those of the rules that have room for one, and returns
// them; fresh says that it was not counted yet, as when copies that go there come all at once.
func (n *Namespaces) reserve(name string, rules []string) (_ []string, fresh bool, _ error) {
	n.e.Lock.Lock()
	defer n.e.Lock.Unlock()
	if n.created == nil || !n.created.known {
		return nil, false, problem.ErrNamespacesUnknown
	}
	if of, counted := n.created.rules[name]; counted {
		return of, false, nil
	}
	counts := map[string]int{}
	for _, of := range n.created.rules {
		for _, rule := range of {
			counts[rule]++
		}
	}
	room := slices.DeleteFunc(slices.Clone(rules), func(rule string) bool { return counts[rule] >= Max })
	if len(room) == 0 {
		return nil, false, problem.NamespaceLimitError{Max: Max}
	}
	n.created.rules[name] = room
	return room, true, nil
}

// unreserve takes a reservation back. A namespace that is there all the same is told by the watch.
func (n *Namespaces) unreserve(name string) {
	n.e.Lock.Lock()
	defer n.e.Lock.Unlock()
	if n.created != nil {
		delete(n.created.rules, name)
	}
}

// Create makes a plain namespace by a request, marked so that people know where it comes from.
func (n *Namespaces) Create(ctx context.Context, name string, rules []string, request Request) error {
	rules, fresh, err := n.reserve(name, rules)
	if err != nil {
		return fmt.Errorf("%w %s: %w", problem.ErrNamespace, name, err)
	}
	if !fresh {
		return nil // another worker creates it now; if it is too late for this copy, its creation wakes that
	}
	_, err = request(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace",
		"metadata": map[string]any{
			"name":        name,
			"labels":      map[string]any{labelManagedBy: managedByAgent},
			"annotations": map[string]any{AnnotationCreatedFor: strings.Join(rules, ",")},
		},
	}})
	if err != nil {
		n.unreserve(name)
	}
	switch {
	case apierrors.IsAlreadyExists(err):
		return nil
	case err != nil:
		return fmt.Errorf("%w %s: %w", problem.ErrNamespace, name, err)
	}
	n.e.Log.Info("created a namespace for copies", "namespace", name, "rules", rules)
	return nil
}
