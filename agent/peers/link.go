// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"errors"
	"reflect"
	"time"

	"github.com/roster-mesh/roster/agent/apiconn"
	"github.com/roster-mesh/roster/agent/directory"
	"github.com/roster-mesh/roster/agent/loop"
	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/kube/history"
	"github.com/roster-mesh/roster/kube/offlocal"
)

const (
	// retryUntilFixed is the longest wait between tries after an error that only a change can fix. A change wakes the
	// link; the retries are for changes without an event.
	retryUntilFixed = 5 * time.Minute
	// triesAfterNewError is where the back-off continues when access fails in another way than before: a wait of two
	// thirds of a second.
	triesAfterNewError = 5
	// minLife is the shortest time before a credential is renewed, however short its life.
	minLife = time.Minute
	// doubtForbidden is for how long an API server that forbids what it allowed before counts as unreachable: when it
	// has just started, it has not loaded its roles yet.
	doubtForbidden = time.Minute
)

// runLink maintains the connection to one peer's API server. It returns when ctx ends, or when the peer is no longer
// listed.
func (p *Peers) runLink(ctx context.Context, id string) {
	l := p.newLink(id)
	defer l.disconnect()
	for ctx.Err() == nil {
		wait, err := l.refresh(ctx)
		if err != nil {
			l.credentials.failed()
		}
		switch {
		case errors.Is(err, directory.ErrGone):
			l.disconnect()
			p.set(id, func(t *tracked) { t.issued = false }) // a look that was under way may have set it since Detach
			if p.ended(id) {
				p.wakeWaiting(id)
				return
			}
		case err != nil:
			wait = l.handleError(err)
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-l.wake:
			if l.narrow { // its agent may be met now: ask it again soon if it does not answer at once
				l.tries = min(l.tries, triesAfterNewError)
			}
		case <-timer.C:
		}
		timer.Stop()
	}
}

// link is the state of runLink. used is the last route that worked, and the one of connection; tried is the last one
// that was tried.
type link struct {
	peers       *Peers
	id          string
	wake        <-chan struct{}
	positions   *history.Positions
	credentials credentials

	used, tried directory.Route
	connection  *connection
	kubeconfig  []byte // the credential that connection uses
	narrow      bool   // see isNarrow
	tries       int
	forbidden   time.Time // since when an API server that allowed access forbids it
}

func (p *Peers) newLink(id string) *link {
	l := &link{peers: p, id: id, positions: p.positions(id)}
	l.credentials = credentials{options: &p.options, id: id, budget: p.asked, clock: apiconn.Clock{Fallback: p.options.Now}}
	l.credentials.claim = func(ctx context.Context, ref v1alpha1.NamespacedName) (string, error) { return p.claim(ctx, id, ref) }
	p.set(id, func(t *tracked) { l.wake = t.wake })
	return l
}

// refresh brings the link up to date. It returns when to call it again if nothing wakes the link.
func (l *link) refresh(ctx context.Context) (time.Duration, error) {
	p := l.peers
	route, err := p.options.Directory.Route(l.id)
	if err != nil {
		return 0, err
	}
	l.positions.Confirm(p.options.Directory.Confirmation(l.id))
	if !reflect.DeepEqual(route, l.tried) {
		l.tried, l.tries, l.credentials.rejected = route, 0, [2][]byte{}
	}
	if route.Secret.Name != "" { // also if it is not used: the agent of the cluster may issue a credential before that
		if _, err := p.claim(ctx, l.id, route.Secret); err != nil {
			return 0, &accessError{apiconn.Pending, err}
		}
	}
	if route.Disabled {
		p.report(l.id, apiconn.Disabled, "disabled here by the annotation "+v1alpha1.AnnotationClusterDisabled)
		l.disconnect()
		return apiconn.UntilWoken, nil
	}
	known, clock := p.Peer(l.id), &l.credentials.clock
	proven := known.Issued && known.State.Access == apiconn.Ready // and the last try did not fail
	if left := clock.RenewIn(l.kubeconfig); proven && left > 0 && l.sameTarget(route) && !l.connection.failing.Load() {
		l.used = route
		return max(left, minLife), nil
	}
	if l.connection != nil && l.connection.unauthorized.Load() {
		l.credentials.reject(l.kubeconfig)
	}
	kubeconfig, issued, err := l.credentials.find(ctx, route.Secret)
	if err != nil {
		return 0, err
	}
	if again, err := l.reach(ctx, route, kubeconfig, issued); again > 0 || err != nil {
		return again, err
	}
	l.used, l.forbidden = route, time.Time{}
	message := ""
	if l.narrow = isNarrow(kubeconfig, issued); l.narrow {
		message = readsRegistryAlone
	}
	_, until, _ := kube.KubeconfigValidity(kubeconfig)
	p.set(l.id, func(t *tracked) { t.expires = until })
	used := ""
	if issued {
		used = string(kubeconfig)
	}
	if p.set(l.id, func(t *tracked) { t.issued, t.kubeconfig = issued, used }) {
		p.Hooks.CredentialKept(l.id)
	}
	p.failures.First(l.id, "") // the next failure is logged again
	p.report(l.id, apiconn.Ready, message)
	p.setConnection(l.id, l.connection, l.narrow)
	if left := clock.RenewIn(kubeconfig); issued && left > 0 {
		l.tries = 0
		return max(left, minLife), nil
	}
	return l.backOff(retryUntilFixed), nil // retry, to get an issued credential or a newer one
}

// reach connects, unless others come first: then it returns when to ask again.
func (l *link) reach(ctx context.Context, route directory.Route, kubeconfig []byte, issued bool) (again time.Duration, err error) {
	if taken, again := l.peers.attempts.Take(l.id, false); !taken {
		return again, nil
	}
	if err := l.connect(ctx, route, kubeconfig, issued); err != nil {
		if errors.Is(err, kube.ErrUnauthorized) {
			l.credentials.reject(kubeconfig)
		}
		return 0, err
	}
	l.peers.attempts.Give(l.id)
	return 0, nil
}

// sameTarget reports whether a route leads to the present connection, of an issued credential, even if the route has changed.
func (l *link) sameTarget(route directory.Route) bool {
	if l.connection == nil || reflect.DeepEqual(route, l.used) {
		return l.connection != nil
	}
	config, err := kube.PeerConfig(l.kubeconfig, route.Endpoints, true, l.peers.options.NetworkName)
	return err == nil && reflect.DeepEqual(apiconn.TargetOf(config), l.connection.target)
}

// handleError reports why there is no access, and returns when to retry. A peer that merely does not answer keeps its
// connection: the watches resume by themselves.
func (l *link) handleError(err error) time.Duration {
	how := accessOf(err)
	if errors.Is(err, kube.ErrForbidden) && l.connection != nil {
		if l.forbidden.IsZero() {
			l.forbidden = time.Now()
		}
		if time.Since(l.forbidden) < doubtForbidden {
			how = apiconn.Unreachable
		}
	}
	if before := l.peers.Peer(l.id).State.Access; before != how {
		l.tries = min(l.tries, triesAfterNewError) // retry sooner, but not at once: two errors may alternate
	}
	message := err.Error()
	if how == apiconn.Unreachable {
		if l.peers.failures.First(l.id, message) {
			l.peers.options.Log.Warn("the API server of a cluster cannot be reached", "cluster", l.id, "error", err)
		}
		message = cannotBeReached
		if errors.Is(err, offlocal.ErrAddress) { // which is known without an answer
			message = offlocal.ErrAddress.Error()
		}
	}
	l.peers.report(l.id, how, message)
	switch how {
	case apiconn.Unreachable, apiconn.Pending:
		return l.backOff(loop.RetryMax)
	case apiconn.Ready, apiconn.Disabled, apiconn.Missing, apiconn.Invalid, apiconn.Wrong:
	}
	if !errors.Is(err, kube.ErrForbidden) { // keep the connection: its rights may be fixed
		l.disconnect()
	}
	return l.backOff(retryUntilFixed)
}

// backOff is the exponential wait before the next try.
func (l *link) backOff(longest time.Duration) time.Duration {
	wait := min(loop.RetryFirst<<min(l.tries, 20), longest)
	l.tries++
	return wait
}

// connect connects, and verifies that the peer's API server answers. If only the token has changed, it is replaced
// while watches stay open. That happens for every new peer, which is read with the pasted credential first and with an
// issued one a moment later. A newly pasted credential gets a connection of its own, which replaces the old one once it
// is verified. A pasted credential is sent only to a server that its own kubeconfig proves, or a CA that a person here vouches for.
func (l *link) connect(ctx context.Context, route directory.Route, kubeconfig []byte, issued bool) error {
	p := l.peers
	config, err := kube.PeerConfig(kubeconfig, route.Endpoints, issued || route.Vouched, p.options.NetworkName)
	if err != nil {
		return &accessError{apiconn.Invalid, err}
	}
	to := apiconn.TargetOf(config)
	if l.connection != nil && reflect.DeepEqual(to, l.connection.target) && (issued || reflect.DeepEqual(route, l.used)) {
		if isNarrow(kubeconfig, issued) { // before its watches are refused
			p.setConnection(l.id, l.connection, true)
		}
		if to.HasToken() {
			l.connection.token.Replace(config.BearerToken)
		}
		if err := kube.VerifyPeer(ctx, l.connection.client, l.id); err != nil {
			return err
		}
		l.kubeconfig = kubeconfig
		l.connection.unauthorized.Store(false)
		l.connection.failing.Store(false)
		return nil
	}
	p.options.Pace(config)
	if apiconn.InPod(p.options.Client) {
		offlocal.KeepOff(config)
	}
	config.Wrap(p.options.Meter.Side(apiconn.Peer, &l.credentials.clock))
	fresh := &connection{peers: p, id: l.id, target: to, token: apiconn.TakeToken(config)}
	if fresh.client, err = kube.NewClient(config); err != nil {
		return &accessError{apiconn.Invalid, err}
	}
	fresh.client.Positions = l.positions
	if err := kube.VerifyPeer(ctx, fresh.client, l.id); err != nil {
		fresh.client.Close()
		return err
	}
	old := l.connection
	l.kubeconfig, l.connection = kubeconfig, fresh
	p.setConnection(l.id, fresh, isNarrow(kubeconfig, issued))
	if old != nil {
		old.client.Close()
	}
	return nil
}

// readsRegistryAlone is what rules say of a cluster that is read with a swapped credential alone.
const readsRegistryAlone = "its swapped credential reads the registry alone, and its agent has not issued one for this cluster: is it met in the mesh? A cluster without mesh needs the chart value credentials.legacyToken there, and its Secret swapped again"

// isNarrow reports whether a credential is a swapped one with which the registry alone can be read. It proves who answers;
// rules wait for the one that the peer's agent issues.
func isNarrow(kubeconfig []byte, issued bool) bool {
	return !issued && apiconn.ClaimsOf(kubeconfig).Narrow()
}

// disconnect closes the connection. Copies from this peer are frozen from then on.
func (l *link) disconnect() {
	l.peers.setConnection(l.id, nil, false)
	if l.connection != nil {
		l.connection.client.Close()
	}
	l.connection, l.kubeconfig, l.used = nil, nil, directory.Route{}
}
