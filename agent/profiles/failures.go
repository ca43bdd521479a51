// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package profiles

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// untilFixed is the wait before a write is tried again that only a person can make possible.
const untilFixed = time.Minute

// errNamespace is returned where no profile can be created since the namespace does not exist.
var errNamespace = errors.New("no such namespace")

// outcome decides what to do about the error of a write. c is the Cluster that an event can be about.
func (p *Profiles) outcome(name string, c *v1alpha1.Cluster, err error) error {
	switch {
	case errors.Is(err, errNamespace):
		p.failed(name, err, "--publish-namespace: create the namespace "+p.o.Namespace)
		return nil
	case errors.Is(err, kube.ErrForbidden):
		p.failed(name, err, p.fixRights())
		return nil
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err):
		return nil // the watch delivers what is there, and it is reconciled then
	case err != nil && !isRefused(err):
		return fmt.Errorf("ClusterProfile %s/%s: %w", p.o.Namespace, name, err)
	}
	for _, freed := range p.failures.worked(name) {
		p.names.Add(freed)
	}
	switch {
	case err != nil && c != nil:
		p.say(c, string(c.UID), "its ClusterProfile is refused: "+err.Error()) // and not tried again until the Cluster changes
	case err != nil:
		if p.said.First(name, err.Error()) {
			p.o.Log.Warn("a ClusterProfile cannot be deleted", "name", name, "error", err)
		}
		p.names.AddAfter(name, untilFixed)
	}
	return nil
}

// failed records what a person has to fix.
func (p *Profiles) failed(name string, err error, fix string) {
	if p.said.First(fix, fix) {
		p.o.Log.Warn("ClusterProfiles cannot be written", "first", name, "error", err, "fix", fix)
	}
	if next := p.failures.failed(name, fix); next != "" {
		p.names.AddAfter(next, untilFixed)
	}
}

func (p *Profiles) fixRights() string {
	return fmt.Sprintf("--publish-cluster-profiles: ClusterProfiles in namespace %s may not be watched and written; install charts/agent with publish.clusterProfiles=true", p.o.Namespace)
}

// isRefused reports whether the API server or a webhook does not take what it was sent. It is of no use to send it again.
func isRefused(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	switch code := status.Status().Code; code {
	case http.StatusUnauthorized, http.StatusNotFound, http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests:
		return false
	default:
		return code >= 400 && code < 500
	}
}

// failures are the profiles that cannot be written until a person has fixed something, which is most often the same for all.
// One of them, the probe, is tried again and again; when that works, the others are tried as well. It is safe for concurrent
// use.
type failures struct {
	problem func(error) error // is told what to fix, in words that are the same for all profiles; nil for nothing

	mu    sync.Mutex
	watch string            // what to fix before profiles can be watched
	held  map[string]string // by name, what to fix
	freed map[string]bool   // those of them that are tried again now
	probe string            // one of held; "" for none
}

// reset forgets all failures.
func (f *failures) reset() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watch, f.held, f.freed, f.probe = "", map[string]string{}, map[string]bool{}, ""
	f.tellLocked()
}

// watched records what has to be fixed before profiles can be watched, "" for nothing.
func (f *failures) watched(fix string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watch = fix
	f.tellLocked()
}

// wait reports whether a profile is not to be tried before the probe has worked.
func (f *failures) wait(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.held[name] != "" && !f.freed[name] && f.probe != name
}

// failed records what has to be fixed for a profile, and returns the one to try after a while; "" if another one is the
// probe.
func (f *failures) failed(name, fix string) (next string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held[name] = fix
	delete(f.freed, name)
	f.tellLocked()
	if f.probe != "" && f.probe != name {
		return ""
	}
	f.probe = name
	for other := range f.held { // another one each time: some may work when one does not
		if other != name && !f.freed[other] {
			f.probe = other
			break
		}
	}
	return f.probe
}

// worked records that there is nothing to fix for a profile, and returns which ones to try now.
func (f *failures) worked(name string) (freed []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.held[name] == "" {
		return nil
	}
	delete(f.held, name)
	delete(f.freed, name)
	f.tellLocked()
	if f.probe != name {
		return nil
	}
	f.probe = ""
	for other := range f.held {
		if !f.freed[other] {
			f.freed[other] = true
			freed = append(freed, other)
		}
	}
	return freed
}

func (f *failures) tellLocked() {
	fixes := map[string]bool{f.watch: true}
	for _, fix := range f.held {
		fixes[fix] = true
	}
	delete(fixes, "")
	var err error
	if len(fixes) > 0 {
		err = errors.New(strings.Join(slices.Sorted(maps.Keys(fixes)), "; "))
	}
	_ = f.problem(err)
}
