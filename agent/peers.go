// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/history"
)

// access is how the agent fares with a peer's API server, for the status of that peer.
type access string

const (
	accessPending     access = ""                  // not tried yet
	accessReady       access = "Connected"         // the API server behind the endpoint is the peer's
	accessDisabled    access = "Disabled"          // a person switched the peer off here
	accessMissing     access = "MissingCredential" // no credential yet
	accessInvalid     access = "InvalidCredential" // a credential that does not parse or is not accepted
	accessUnreachable access = "APIUnreachable"
	accessWrong       access = "WrongCluster" // another cluster answers
)

// accessState is an access with what a person should know about it. The message is the same for the same
// failure: it must not hold what differs from try to try, or each try would be a write.
type accessState struct {
	access  access
	message string
	since   time.Time
}

// accessError says in which way access failed.
type accessError struct {
	access access
	err    error
}

func (e *accessError) Error() string { return strings.TrimSpace(e.err.Error()) }
func (e *accessError) Unwrap() error { return e.err }

func accessOf(err error) access {
	var a *accessError
	switch {
	case errors.As(err, &a):
		return a.access
	case errors.Is(err, kube.ErrWrongCluster):
		return accessWrong
	case errors.Is(err, kube.ErrUnauthorized), errors.Is(err, kube.ErrForbidden):
		return accessInvalid
	}
	return accessUnreachable
}

// peers runs one runPeer for every other cluster that the local API server lists, and remembers what the
// others parts ask about them.
type peers struct {
	session *session
	added   workqueue.TypedInterface[string] // those that run has to start

	mu         sync.Mutex
	known      map[string]*peer
	past       map[string][]byte // notes of positions that an earlier agent recorded, of clusters not yet read from
	unrecorded bool              // there is news of positions
}

// peer is what is remembered of one cluster while the agent runs. All but wake is guarded by peers.mu.
type peer struct {
	wake    chan struct{} // something that runPeer depends on changed
	running bool
	state   accessState
	issued  bool // the credential in use was issued to us by the peer's agent, and is kept privately
	heard   bool // the peer itself was asked for all that it published since this agent started
	source  *peerSource
	expires time.Time // of the credential in use; zero for not known, or none in use

	positions *history.Positions // outlive the connections; nil where it was not read from, or was forgotten
}

// newPeers is told of the notes that an earlier agent recorded, by clusterID.
func newPeers(s *session, past map[string][]byte) *peers {
	return &peers{session: s, added: workqueue.NewTyped[string](), known: map[string]*peer{}, past: past}
}

// run blocks until ctx ends and every runPeer has returned.
func (p *peers) run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, p.added.ShutDown)
	defer stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		id, shutdown := p.added.Get()
		if shutdown {
			return nil
		}
		p.added.Done(id)
		wg.Go(func() { p.session.runPeer(ctx, id) })
	}
}

// changed makes runPeer look again at what it depends on; for a cluster that is new here it is started.
func (p *peers) changed(id string) {
	if id == p.session.clusterID {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	peer := p.peer(id)
	if !peer.running {
		if !p.session.listed(id) {
			return
		}
		peer.running = true
		p.added.Add(id)
	}
	select {
	case peer.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// listed says that a cluster is to be read from: there is a Cluster object of it, and it is not gone from the group.
func (s *session) listed(id string) bool { return len(s.registry.byID(id)) > 0 && !s.gone(id) }

// ended says that runPeer is about to return because the cluster is not listed any more; false when it is
// again.
func (p *peers) ended(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.peer(id).running = p.session.listed(id)
	return !p.peer(id).running
}

// peer finds or makes the record of a cluster. mu is held.
func (p *peers) peer(id string) *peer {
	found, ok := p.known[id]
	if !ok {
		found = &peer{wake: make(chan struct{}, 1)}
		p.known[id] = found
	}
	return found
}

// look reads the record of a cluster.
func (p *peers) look(id string) peer {
	p.mu.Lock()
	defer p.mu.Unlock()
	return *p.peer(id)
}

// set changes the record of a cluster, and tells whether that was a change.
func (p *peers) set(id string, change func(*peer)) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	peer := p.peer(id)
	before := *peer
	change(peer)
	return *peer != before
}

// report records how access to a peer fares and has its status written when that is new. runPeer alone calls
// it.
func (p *peers) report(id string, a access, message string) {
	changed := p.set(id, func(peer *peer) {
		if peer.state.access != a {
			peer.state.since = time.Now()
		}
		peer.state.access, peer.state.message = a, message
	})
	if changed {
		p.session.statuses.add(id)
	}
}
