// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/kube/history"
	"github.com/roster-mesh/roster/mesh"
	"github.com/roster-mesh/roster/replica"
)

const (
	// askTimeout bounds how long a peer's agent may take to issue a credential.
	askTimeout = 5 * time.Second
	// mendMost is the longest wait between tries where only a change can help, which wakes us, and the
	// tries are for what we were not told.
	mendMost = 5 * time.Minute
	// triesAfterChange is from where the waits grow again when access fails in another way: two thirds of a second.
	triesAfterChange = 5
	// leastLife is how soon, at least, a credential is renewed, however short its issuer says its life is.
	leastLife = time.Minute
	// rejectedFor is how long a credential is not tried again that was not accepted: the API server may have been wrong.
	rejectedFor = 5 * time.Minute
)

// errGone is returned when no Cluster object of a peer is there any more, or the peer is not in the group.
var errGone = errors.New("its Cluster object is gone")

// runPeer is the access to one peer's API server: find a credential, prove that the right cluster answers,
// hand the connection to the engine, renew. While there is none the engine has no source, and what was
// copied from that peer is frozen. It returns when ctx ends or the peer is not listed any more.
func (s *session) runPeer(ctx context.Context, id string) {
	link := newPeerLink(s, id)
	defer link.drop()
	wake := s.peers.look(id).wake
	for ctx.Err() == nil {
		wait, err := link.refresh(ctx)
		if err != nil {
			link.stored = nil // somebody may have written or deleted it
		}
		switch {
		case errors.Is(err, errGone):
			if link.drop(); s.peers.ended(id) {
				return
			}
		case err != nil:
			wait = link.failed(err)
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// peerLink is what runPeer carries from one look to the next. The peer is used through source as used says,
// which is the last inputs that worked; tried are the last ones that were tried.
type peerLink struct {
	session     *session
	id          string
	used, tried linkInputs
	source      *peerSource
	kubeconfig  []byte       // the credential that source uses
	stored      *kube.Secret // with the one that was issued to us last; nil when it is to be read, as after each error
	rejected    [2][]byte    // the last ones that the API server did not accept
	rejectedAt  time.Time
	tries       int
	forbidden   time.Time // since when an API server that let us in before forbids it
	positions   *history.Positions
	clock       issuerClock // of the peer's API server
}

func newPeerLink(s *session, id string) *peerLink {
	return &peerLink{session: s, id: id, positions: s.peers.positions(id), clock: issuerClock{wall: s.clock.now}}
}

// linkInputs are what a connection is made of, beside the credential; when one changes it is looked at anew.
type linkInputs struct {
	endpoints []v1alpha1.KubernetesAPIEndpoint
	secret    v1alpha1.NamespacedName // the pasted one
	version   string                  // of that
	disabled  bool
}

// refresh brings the link up to date and returns when to look again without being woken.
func (l *peerLink) refresh(ctx context.Context) (time.Duration, error) {
	s := l.session
	in, err := s.linkInputs(l.id)
	if err != nil {
		return 0, err
	}
	l.positions.Confirm(s.confirmationOf(l.id))
	if !reflect.DeepEqual(in, l.tried) {
		l.tried, l.tries, l.rejected = in, 0, [2][]byte{}
	}
	if in.disabled {
		s.peers.report(l.id, accessDisabled, "disabled here by the annotation "+v1alpha1.AnnotationClusterDisabled)
		l.drop()
		return untilWoken, nil
	}
	known := s.peers.look(l.id)
	proven := known.issued && known.state.access == accessReady // and not another place meanwhile, in vain
	if left := l.clock.renewIn(l.kubeconfig); proven && left > 0 && l.leads(in) && !l.source.troubled.Load() {
		l.used = in
		return max(left, leastLife), nil
	}
	kubeconfig, issued, err := l.credential(ctx, in)
	if err != nil {
		return 0, err
	}
	if err := l.connect(ctx, in, kubeconfig, issued); err != nil {
		if errors.Is(err, kube.ErrUnauthorized) {
			l.reject(kubeconfig)
		}
		return 0, err
	}
	l.used, l.forbidden = in, time.Time{}
	_, until, _ := kube.KubeconfigValidity(kubeconfig)
	s.peers.set(l.id, func(p *peer) { p.expires = until })
	if s.peers.set(l.id, func(p *peer) { p.issued = issued }) {
		s.incoming.add(clusterKey(l.id)) // the local Cluster object says where the credential is
	}
	s.peers.report(l.id, accessReady, "")
	s.offer(l.id, l.source)
	if left := l.clock.renewIn(kubeconfig); issued && left > 0 {
		l.tries = 0
		return max(left, leastLife), nil
	}
	return l.pause(mendMost), nil // to ask its agent for a credential of our own, or a newer one
}

// leads says that the inputs lead to where the source is, whatever the reason why they are others.
func (l *peerLink) leads(in linkInputs) bool {
	if l.source == nil || reflect.DeepEqual(in, l.used) {
		return l.source != nil
	}
	config, err := kube.PeerConfig(l.kubeconfig, in.endpoints, l.session.options.NetworkName)
	return err == nil && reflect.DeepEqual(targetOf(config), l.source.target)
}

// failed reports why there is no access, and returns when to try again. A peer that merely does not answer
// keeps its connection, whose watches resume by themselves.
func (l *peerLink) failed(err error) time.Duration {
	how := accessOf(err)
	if errors.Is(err, kube.ErrForbidden) && l.source != nil {
		// An API server that just started forbids for a moment what it allows: that says nothing yet.
		if l.forbidden.IsZero() {
			l.forbidden = time.Now()
		}
		if time.Since(l.forbidden) < grace {
			how = accessUnreachable
		}
	}
	if before := l.session.peers.look(l.id).state.access; before != how {
		l.tries = min(l.tries, triesAfterChange) // what took long to end has ended, or it fails in two ways in turn
	}
	l.session.peers.report(l.id, how, err.Error())
	switch how {
	case accessUnreachable, accessPending:
		return l.pause(retryMost)
	case accessReady, accessDisabled, accessMissing, accessInvalid, accessWrong:
	}
	if !errors.Is(err, kube.ErrForbidden) { // it may allow it again, as when its rights are mended
		l.drop()
	}
	return l.pause(mendMost)
}

// pause is the exponential wait before the next try.
func (l *peerLink) pause(most time.Duration) time.Duration {
	wait := min(retryFirst<<min(l.tries, 20), most)
	l.tries++
	return wait
}

// linkInputs reads what the connection to a peer is made of. What its origin signed wins over the local
// object, which more people may edit than may read credentials.
func (s *session) linkInputs(id string) (linkInputs, error) {
	copies := s.registry.byID(id)
	if len(copies) == 0 || s.gone(id) {
		return linkInputs{}, errGone
	}
	in := linkInputs{endpoints: copies[0].Spec.KubernetesAPIEndpoints}
	for _, c := range copies {
		in.disabled = in.disabled || has(c, v1alpha1.AnnotationClusterDisabled)
		ref := c.Spec.AuthInfo.SecretRef
		if in.secret.Name == "" && ref.Name != "" && ref.Namespace != s.options.privateNamespace() {
			in.secret, in.version = ref, s.registry.secretVersion(ref)
		}
	}
	if e, ok := s.replica.Lookup(clusterKey(id), id); ok && e.Status == replica.Live {
		if p, err := decodeCluster(id, e.Payload); err == nil {
			in.endpoints = p.Spec.KubernetesAPIEndpoints
		}
	}
	return in, nil
}

// confirmationOf is what the owner of a cluster confirmed last of a restore, as its agent signed it; of one
// that is not in the mesh, what somebody noted on the Cluster object here.
func (s *session) confirmationOf(id string) string {
	if e, ok := s.replica.Lookup(clusterKey(id), id); ok && e.Status == replica.Live {
		if p, err := decodeCluster(id, e.Payload); err == nil {
			return p.Annotations[v1alpha1.AnnotationConfirmRestore]
		}
	}
	for _, c := range s.registry.byID(id) {
		return c.Annotations[v1alpha1.AnnotationConfirmRestore]
	}
	return ""
}

// credential finds the kubeconfig to use: the one that the peer's agent issued to us while it is good, else
// a new one from that agent over the mesh, else the swapped one.
func (l *peerLink) credential(ctx context.Context, in linkInputs) (kubeconfig []byte, issued bool, err error) {
	s := l.session
	if l.stored == nil {
		if l.stored, err = s.private.credential(ctx, l.id); err != nil {
			return nil, false, &accessError{accessPending, err}
		}
	}
	kept := l.stored.Data[v1alpha1.SecretKubeconfigKey]
	if l.source != nil && l.source.refused.Load() {
		l.reject(l.kubeconfig)
	}
	if l.isRejected(kept) {
		kept = nil // it was tried and is not accepted any more
	}
	if kept != nil && l.clock.renewIn(kept) > 0 {
		return kept, true, nil
	}
	fresh, err := l.ask(ctx)
	if err != nil {
		return nil, false, err
	}
	if fresh != nil {
		return fresh, true, nil
	}
	if kept != nil && !l.clock.over(kept) {
		return kept, true, nil
	}
	pasted, err := l.pasted(ctx, in)
	switch {
	case pasted != nil:
		return pasted, false, nil
	case kept != nil: // one that should be over is tried, too: the API server knows, and clocks are wrong at times
		return kept, true, nil
	case err != nil:
		return nil, false, err
	}
	return nil, false, &accessError{accessMissing, errors.New("no credential: paste its Secret, or wait until its agent is met in the mesh and hands one over")}
}

// reject remembers that the API server did not accept a kubeconfig. There are two at most that would be tried in
// turn: the one that was issued to us last, and the swapped one.
func (l *peerLink) reject(kubeconfig []byte) {
	if !l.isRejected(kubeconfig) {
		l.rejected = [2][]byte{kubeconfig, l.rejected[0]}
	}
	l.rejectedAt = time.Now()
}

func (l *peerLink) isRejected(kubeconfig []byte) bool {
	return kubeconfig != nil && time.Since(l.rejectedAt) < rejectedFor && (bytes.Equal(kubeconfig, l.rejected[0]) || bytes.Equal(kubeconfig, l.rejected[1]))
}

// ask has the peer's agent issue a credential to us and keeps it; nil when that agent is not there, or
// cannot.
func (l *peerLink) ask(ctx context.Context) ([]byte, error) {
	s := l.session
	if state := s.mesh.Member(l.id).State; state != mesh.Alive && state != mesh.Suspect {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	issued, err := s.mesh.Call(ctx, l.id, methodCredential, nil)
	if err != nil {
		s.log.Debug("no credential from a member", "cluster", l.id, "error", err)
		return nil, nil // there are other places to look
	}
	if _, err := kube.ParseKubeconfig(issued); err != nil {
		return nil, &accessError{accessInvalid, fmt.Errorf("the credential that its agent issued: %w", err)}
	}
	l.clock.issued(issued)
	if err := s.private.recordCredential(ctx, l.stored, issued); err != nil {
		return nil, &accessError{accessPending, err}
	}
	return issued, nil
}

// pasted reads the Secret that the local Cluster object names; nil when there is none. It is the user's:
// read, never edited or deleted.
func (l *peerLink) pasted(ctx context.Context, in linkInputs) ([]byte, error) {
	if in.secret.Name == "" {
		return nil, nil
	}
	name := in.secret.Namespace + "/" + in.secret.Name
	secret, err := l.session.client.Secrets(in.secret.Namespace).Read(ctx, in.secret.Name)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case apierrors.IsForbidden(err):
		return nil, &accessError{accessInvalid, fmt.Errorf("the agent may not read Secret %s: paste it into namespace %s and name it in spec.authInfo.secretRef", name, l.session.options.Namespace)}
	case err != nil:
		return nil, &accessError{accessPending, fmt.Errorf("read Secret %s: %w", name, err)}
	case secret.Type != v1alpha1.SecretType:
		return nil, &accessError{accessInvalid, fmt.Errorf("the pasted Secret %s has type %s: paste one of type %s", name, secret.Type, v1alpha1.SecretType)}
	}
	kubeconfig := secret.Data[v1alpha1.SecretKubeconfigKey]
	if _, err := kube.ParseKubeconfig(kubeconfig); err != nil {
		return nil, &accessError{accessInvalid, fmt.Errorf("the pasted Secret %s, key %s: %w", name, v1alpha1.SecretKubeconfigKey, err)}
	}
	if l.isRejected(kubeconfig) {
		return nil, &accessError{accessInvalid, fmt.Errorf("the pasted Secret %s: %w: paste a fresh one", name, kube.ErrUnauthorized)}
	}
	return kubeconfig, nil
}

// connect proves that the peer's API server answers. When nothing but the token changed, it is replaced
// under the watches that are open: so it is for each newcomer, which is read with the swapped credential at first and
// with one of our own a moment later. Another one that somebody pasted is tried beside what there is.
func (l *peerLink) connect(ctx context.Context, in linkInputs, kubeconfig []byte, issued bool) error {
	s := l.session
	config, err := kube.PeerConfig(kubeconfig, in.endpoints, s.options.NetworkName)
	if err != nil {
		return &accessError{accessInvalid, err}
	}
	to := targetOf(config)
	if l.source != nil && reflect.DeepEqual(to, l.source.target) && (issued || reflect.DeepEqual(in, l.used)) {
		if to.token {
			l.source.token.replace(config.BearerToken)
		}
		if err := kube.VerifyPeer(ctx, l.source.client, l.id); err != nil {
			return err
		}
		l.kubeconfig = kubeconfig
		l.source.refused.Store(false)
		l.source.troubled.Store(false)
		return nil
	}
	s.options.pace(config)
	config.Wrap(s.meter.side(sidePeer, &l.clock))
	source := &peerSource{session: s, id: l.id, target: to, token: takeToken(config)}
	if source.client, err = kube.NewClient(config); err != nil {
		return &accessError{accessInvalid, err}
	}
	source.client.Positions = l.positions
	if err := kube.VerifyPeer(ctx, source.client, l.id); err != nil {
		source.client.Close()
		return err
	}
	old := l.source
	l.kubeconfig, l.source = kubeconfig, source
	s.offer(l.id, source)
	if old != nil {
		old.client.Close()
	}
	return nil
}

// drop takes the source away from the engine: what was copied from this peer is frozen from here on.
func (l *peerLink) drop() {
	l.session.offer(l.id, nil)
	if l.source != nil {
		l.source.client.Close()
	}
	l.source, l.kubeconfig, l.used = nil, nil, linkInputs{}
}
