// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
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

// accessState is an access with what a person should know about it.
type accessState struct {
	access  access
	message string
	since   time.Time
}

// peers runs one runPeer for every other cluster that the local API server lists.
type peers struct {
	session *session
	added   workqueue.TypedInterface[string] // those that run has to start

	mu    sync.Mutex
	known map[string]*peer
}

// peer is what is remembered of one cluster while the agent runs.
type peer struct {
	wake chan struct{} // something that runPeer depends on changed

	// Guarded by peers.mu.
	started bool
	state   accessState
	issued  bool // the credential in use was issued to us by the peer's agent, and is kept privately
	met     bool // its agent was alive at some time since this agent started
	source  *peerSource
}

func newPeers(s *session) *peers {
	return &peers{session: s, added: workqueue.NewTyped[string](), known: map[string]*peer{}}
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
		wake := p.peer(id).wake
		wg.Go(func() { p.session.runPeer(ctx, id, wake) })
	}
}

// changed makes the peer look again at what it depends on; an unknown one is started.
func (p *peers) changed(id string) {
	if id == p.session.clusterID || len(p.session.registry.byID(id)) == 0 {
		return
	}
	p.mu.Lock()
	peer, ok := p.known[id]
	if !ok {
		peer = newPeer()
		p.known[id] = peer
	}
	start := !peer.started
	peer.started = true
	p.mu.Unlock()
	if start {
		p.added.Add(id)
		return
	}
	select {
	case peer.wake <- struct{}{}:
	default: // it will look anyway
	}
}

func newPeer() *peer { return &peer{wake: make(chan struct{}, 1)} }

func (p *peers) peer(id string) *peer {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known[id]
}

// setSource records the connection that the engine may use, and tells whether that is news.
func (p *peers) setSource(id string, source *peerSource) (changed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	peer := p.known[id]
	changed = peer.source != source
	peer.source = source
	return changed
}

// source is the connection to a peer, nil while there is none, with how access fares and whether the peer's
// agent was met.
func (p *peers) source(id string) (source *peerSource, state accessState, met bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if peer, ok := p.known[id]; ok {
		return peer.source, peer.state, peer.met
	}
	return nil, accessState{}, false
}

// meet records that a peer's agent is alive, and tells whether that is news.
func (p *peers) meet(id string) (changed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	peer, ok := p.known[id]
	if !ok {
		peer = newPeer()
		p.known[id] = peer
	}
	changed = !peer.met
	peer.met = true
	return changed
}

// setIssued records whether the credential in use is our own, and tells whether that is news.
func (p *peers) setIssued(id string, issued bool) (changed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	peer := p.known[id]
	changed = peer.issued != issued
	peer.issued = issued
	return changed
}

// issued tells whether we hold a credential of our own for a peer.
func (p *peers) issued(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	peer, ok := p.known[id]
	return ok && peer.issued
}

func (p *peers) state(id string) accessState {
	p.mu.Lock()
	defer p.mu.Unlock()
	if peer, ok := p.known[id]; ok {
		return peer.state
	}
	return accessState{}
}

// report records how access to a peer fares and has its status written when that is new.
func (p *peers) report(id string, a access, message string) {
	p.mu.Lock()
	peer, ok := p.known[id]
	changed := ok && (peer.state.access != a || peer.state.message != message)
	if changed {
		since := time.Now()
		if peer.state.access == a {
			since = peer.state.since
		}
		peer.state = accessState{access: a, message: message, since: since}
	}
	p.mu.Unlock()
	if changed {
		p.session.statuses.add(id)
		p.session.statuses.add(p.session.clusterID)
	}
}
