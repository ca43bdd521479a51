// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package renewals

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

func keyOf(secret *kube.Secret) types.NamespacedName {
	return types.NamespacedName{Namespace: secret.Namespace, Name: secret.Name}
}

// asks says whether a Secret is to be renewed.
func asks(u *unstructured.Unstructured) bool {
	_, ok := u.GetAnnotations()[v1alpha1.AnnotationRenewCredentialOf]
	return ok
}

// received is the sink of the Secrets of a namespace.
type received struct {
	r         *Renewals
	namespace string
}

func (s *received) Replace(objs []*unstructured.Unstructured, _ string) {
	s.r.shelf.clear(s.namespace)
	for _, u := range objs {
		s.Upsert(u)
	}
	s.r.rest(s.namespace)
}

func (s *received) Upsert(u *unstructured.Unstructured) {
	secret, err := kube.Decode[kube.Secret](u)
	if err != nil || !asks(u) { // it does not ask any more
		s.Delete(s.namespace, u.GetName(), u)
		return
	}
	s.r.shelf.put(keyOf(secret), secret)
	s.r.keys.Add(keyOf(secret))
}

func (s *received) Delete(_, name string, _ *unstructured.Unstructured) {
	s.r.shelf.put(types.NamespacedName{Namespace: s.namespace, Name: name}, nil)
	s.r.rest(s.namespace)
}

func (s *received) Health(err error) {
	if err == nil || errors.Is(err, kube.ErrForbidden) {
		s.r.rights.watched(s.namespace, err)
	}
}

// shelf has the Secrets that ask, as they were received. It is safe for concurrent use.
type shelf struct {
	mu   sync.Mutex
	held map[types.NamespacedName]*kube.Secret
}

// get returns a Secret, nil if there is none. Do not change it.
func (s *shelf) get(key types.NamespacedName) *kube.Secret {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held[key]
}

// put sets one Secret, or removes it if now is nil.
func (s *shelf) put(key types.NamespacedName, now *kube.Secret) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now == nil {
		delete(s.held, key)
		return
	}
	if s.held == nil {
		s.held = map[types.NamespacedName]*kube.Secret{}
	}
	s.held[key] = now
}

// clear removes the Secrets of a namespace.
func (s *shelf) clear(namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.held, func(key types.NamespacedName, _ *kube.Secret) bool { return key.Namespace == namespace })
}

// none reports whether no Secret of a namespace asks.
func (s *shelf) none(namespace string) bool {
	return !slices.ContainsFunc(s.all(), func(secret *kube.Secret) bool { return secret.Namespace == namespace })
}

func (s *shelf) all() []*kube.Secret {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.held))
}

// rights remembers in which namespaces Secrets may not be watched or written. It is safe for concurrent use.
type rights struct {
	problem func(error) error // is told what to fix, nil for nothing

	mu     sync.Mutex
	lacked map[string]map[string]bool // verbs, by namespace
}

func (r *rights) watched(namespace string, err error) { r.set(namespace, "watched", err != nil) }

func (r *rights) written(namespace string, err error) { r.set(namespace, "written", err != nil) }

func (r *rights) set(namespace, verb string, lacks bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lacked[namespace][verb] == lacks {
		return
	}
	if r.lacked == nil {
		r.lacked = map[string]map[string]bool{}
	}
	if r.lacked[namespace] == nil {
		r.lacked[namespace] = map[string]bool{}
	}
	r.lacked[namespace][verb] = lacks
	var all []string
	for _, namespace := range slices.Sorted(maps.Keys(r.lacked)) {
		for _, verb := range slices.Sorted(maps.Keys(r.lacked[namespace])) {
			if r.lacked[namespace][verb] {
				all = append(all, fmt.Sprintf("Secrets in namespace %s may not be %s", namespace, verb))
			}
		}
	}
	var err error
	if len(all) > 0 {
		err = fmt.Errorf("--renew-namespaces: %s; install charts/agent with these renew.namespaces", strings.Join(all, ", "))
	}
	_ = r.problem(err)
}
