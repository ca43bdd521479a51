// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package profiles

import (
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// shelf has the profiles that the API server has, as far as they were received. It is safe for concurrent use.
type shelf struct {
	mu     sync.Mutex
	kind   schema.GroupVersionKind    // the version that is served; zero for none
	listed bool                       // a complete list was received
	held   map[string]*clusterProfile // by name
	wrote  map[string]written         // by name
}

// written is the status that was written last, and the resourceVersion of the answer. An API server may drop fields that
// its version of the CRD does not have: what it did not take is not written again.
type written struct {
	resourceVersion string
	status          profileStatus
}

// serve forgets everything, and sets the version.
func (s *shelf) serve(kind schema.GroupVersionKind) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kind, s.listed, s.held, s.wrote = kind, false, map[string]*clusterProfile{}, map[string]written{}
}

// replace sets all profiles. It returns the names of those that were or are there.
func (s *shelf) replace(all []*clusterProfile) (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := make(map[string]*clusterProfile, len(all))
	for _, p := range all {
		now[p.Name] = p
		names = append(names, p.Name)
	}
	for name := range s.held {
		if now[name] == nil {
			names = append(names, name)
			delete(s.wrote, name)
		}
	}
	s.held, s.listed = now, true
	return names
}

// put sets one profile, or removes it if now is nil.
func (s *shelf) put(name string, now *clusterProfile) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now != nil {
		s.held[name] = now
		return
	}
	delete(s.held, name)
	delete(s.wrote, name)
}

// get returns a profile, nil if there is none. listed is false while that is not known. Do not change the profile.
func (s *shelf) get(name string) (have *clusterProfile, kind schema.GroupVersionKind, listed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held[name], s.kind, s.listed
}

// about are the names of the profiles that say that they are about a cluster.
func (s *shelf) about(clusterID string) (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, p := range s.held {
		if p.Labels[labelMemberID] == clusterID {
			names = append(names, name)
		}
	}
	return names
}

// remember records what was written.
func (s *shelf) remember(name, resourceVersion string, status profileStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wrote[name] = written{resourceVersion, status}
}

// isWritten reports whether exactly that was written to exactly this profile.
func (s *shelf) isWritten(have *clusterProfile, status profileStatus) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	last, ok := s.wrote[have.Name]
	return ok && last.resourceVersion == have.ResourceVersion && equality.Semantic.DeepEqual(last.status, status)
}
