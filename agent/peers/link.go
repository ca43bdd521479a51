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
)

const (
	// retryUntilFixed is the longest wait between tries where only a change can help. A change wakes the link; the
	// tries are for what nobody tells it of.
	retryUntilFixed = 5 * time.Minute
	// triesAfterChange is from where the waits grow again when access fails in another way: two thirds of a second.
	triesAfterChange = 5
	// leastLife is how soon, at least, a credential is renewed, however short its issuer says its life is.
	leastLife = time.Minute
	// doubtForbidden is for how long an API server that forbids what it allowed counts as one that does not answer: when it
	// has just started it has not read its roles yet.
	doubtForbidden = time.Minute
)

// runLink keeps the access to one peer's API server. It returns when ctx ends or the peer is not listed any more.
func (p *Peers) runLink(ctx context.Context, id string) {
	l := p.newLink(id)
	defer l.drop()
	for ctx.Err() == nil {
		wait, err := l.refresh(ctx)
		if err != nil {
			l.credentials.kept = nil // somebody may have written or deleted it
		}
		switch {
		case errors.Is(err, directory.ErrGone):
			if l.drop(); p.ended(id) {
				return
			}
		case err != nil:
			wait = l.failed(err)
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-l.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// link is what runLink carries from one look to the next. The peer is used through connection by the route used, which is
// the last one that worked; tried is the last one that was tried.
type link struct {
	peers       *Peers
	id          string
	wake        <-chan struct{}
	positions   *history.Positions
	credentials credentials

	used, tried directory.Route
	connection  *connection
	kubeconfig  []byte // the credential that connection uses
	tries       int
	forbidden   time.Time // since when an API server that let us in before forbids it
}

func (p *Peers) newLink(id string) *link {
	l := &link{peers: p, id: id, positions: p.positions(id)}
	l.credentials = credentials{options: &p.options, id: id, clock: apiconn.Clock{Fallback: p.options.Now}}
	p.set(id, func(t *tracked) { l.wake = t.wake })
	return l
}

// refresh brings the link up to date and returns when to look again without being woken.
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
	if route.Disabled {
		p.report(l.id, apiconn.Disabled, "disabled here by the annotation "+v1alpha1.AnnotationClusterDisabled)
		l.drop()
		return apiconn.UntilWoken, nil
	}
	known, clock := p.Look(l.id), &l.credentials.clock
	proven := known.Issued && known.State.Access == apiconn.Ready // and not another place meanwhile, in vain
	if left := clock.RenewIn(l.kubeconfig); proven && left > 0 && l.leads(route) && !l.connection.troubled.Load() {
		l.used = route
		return max(left, leastLife), nil
	}
	if l.connection != nil && l.connection.refused.Load() {
		l.credentials.reject(l.kubeconfig)
	}
	kubeconfig, issued, err := l.credentials.find(ctx, route.Secret)
	if err != nil {
		return 0, err
	}
	if err := l.connect(ctx, route, kubeconfig, issued); err != nil {
		if errors.Is(err, kube.ErrUnauthorized) {
			l.credentials.reject(kubeconfig)
		}
		return 0, err
	}
	l.used, l.forbidden = route, time.Time{}
	_, until, _ := kube.KubeconfigValidity(kubeconfig)
	p.set(l.id, func(t *tracked) { t.expires = until })
	if p.set(l.id, func(t *tracked) { t.issued = issued }) {
		p.Hooks.CredentialKept(l.id)
	}
	p.report(l.id, apiconn.Ready, "")
	p.offer(l.id, l.connection)
	if left := clock.RenewIn(kubeconfig); issued && left > 0 {
		l.tries = 0
		return max(left, leastLife), nil
	}
	return l.pause(retryUntilFixed), nil // to ask its agent for a credential of our own, or a newer one
}

// leads says that a route leads to where the connection is, whatever the reason why it is another one.
func (l *link) leads(route directory.Route) bool {
	if l.connection == nil || reflect.DeepEqual(route, l.used) {
		return l.connection != nil
	}
	config, err := kube.PeerConfig(l.kubeconfig, route.Endpoints, l.peers.options.NetworkName)
	return err == nil && reflect.DeepEqual(apiconn.TargetOf(config), l.connection.target)
}

// failed reports why there is no access, and returns when to try again. A peer that merely does not answer
// keeps its connection, whose watches resume by themselves.
func (l *link) failed(err error) time.Duration {
	how := accessOf(err)
	if errors.Is(err, kube.ErrForbidden) && l.connection != nil {
		if l.forbidden.IsZero() {
			l.forbidden = time.Now()
		}
		if time.Since(l.forbidden) < doubtForbidden {
			how = apiconn.Unreachable
		}
	}
	if before := l.peers.Look(l.id).State.Access; before != how {
		l.tries = min(l.tries, triesAfterChange) // what took long to end has ended, or it fails in two ways in turn
	}
	l.peers.report(l.id, how, err.Error())
	switch how {
	case apiconn.Unreachable, apiconn.Pending:
		return l.pause(loop.RetryMost)
	case apiconn.Ready, apiconn.Disabled, apiconn.Missing, apiconn.Invalid, apiconn.Wrong:
	}
	if !errors.Is(err, kube.ErrForbidden) { // it may allow it again, as when its rights are fixed
		l.drop()
	}
	return l.pause(retryUntilFixed)
}

// pause is the exponential wait before the next try.
func (l *link) pause(most time.Duration) time.Duration {
	wait := min(loop.RetryFirst<<min(l.tries, 20), most)
	l.tries++
	return wait
}

// connect proves that the peer's API server answers. When nothing but the token changed, it is replaced
// under the watches that are open: so it is for each newcomer, which is read with the swapped credential at first and
// with one of our own a moment later. Another one that somebody pasted is tried beside what there is.
func (l *link) connect(ctx context.Context, route directory.Route, kubeconfig []byte, issued bool) error {
	p := l.peers
	config, err := kube.PeerConfig(kubeconfig, route.Endpoints, p.options.NetworkName)
	if err != nil {
		return &accessError{apiconn.Invalid, err}
	}
	to := apiconn.TargetOf(config)
	if l.connection != nil && reflect.DeepEqual(to, l.connection.target) && (issued || reflect.DeepEqual(route, l.used)) {
		if to.HasToken() {
			l.connection.token.Replace(config.BearerToken)
		}
		if err := kube.VerifyPeer(ctx, l.connection.client, l.id); err != nil {
			return err
		}
		l.kubeconfig = kubeconfig
		l.connection.refused.Store(false)
		l.connection.troubled.Store(false)
		return nil
	}
	p.options.Pace(config)
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
	p.offer(l.id, fresh)
	if old != nil {
		old.client.Close()
	}
	return nil
}

// drop takes the connection away: what was copied from this peer is frozen from here on.
func (l *link) drop() {
	l.peers.offer(l.id, nil)
	if l.connection != nil {
		l.connection.client.Close()
	}
	l.connection, l.kubeconfig, l.used = nil, nil, directory.Route{}
}
