// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// runPeer is the access to one peer's API server: find a credential, prove that the right cluster answers,
// hand the connection to the engine, renew. While there is none the engine has no source and what was
// copied from that peer is frozen.
func (s *session) runPeer(ctx context.Context, id string, wake <-chan struct{}) {
	link := &peerLink{session: s, id: id}
	delay := retryFirst
	for ctx.Err() == nil {
		wait, err := link.refresh(ctx)
		if err != nil {
			s.peers.report(id, accessOf(err), err.Error())
			wait = delay
			delay = min(2*delay, retryMost)
		} else {
			delay = retryFirst
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-wake:
			delay = retryFirst
		case <-timer.C:
		}
		timer.Stop()
	}
}

// peerLink is what runPeer carries from one look to the next.
type peerLink struct {
	session    *session
	id         string
	inputs     linkInputs
	source     *peerSource
	kubeconfig []byte // the credential that source uses
}

// linkInputs are what a connection is made of, beside the credential; when one changes it is made anew.
type linkInputs struct {
	endpoints []v1alpha1.KubernetesAPIEndpoint
	secret    string // namespace/name@resourceVersion of the pasted Secret
	disabled  bool
}

// refresh brings the link up to date and returns when to look again without being woken.
func (l *peerLink) refresh(ctx context.Context) (time.Duration, error) {
	s := l.session
	inputs, err := l.read()
	if err != nil {
		return 0, err
	}
	changed := !reflect.DeepEqual(inputs, l.inputs)
	l.inputs = inputs
	if inputs.disabled {
		l.drop()
		s.peers.report(l.id, accessDisabled, "disabled here by the annotation "+v1alpha1.AnnotationClusterDisabled)
		return untilWoken, nil
	}
	fresh := l.source != nil && !changed && !l.source.refused.Load() && s.peers.issued(l.id)
	if left := renewIn(l.kubeconfig, peerLife); fresh && left > 0 {
		return left, nil
	}
	credential, err := l.credential(ctx, inputs)
	if err != nil {
		if accessOf(err) != accessPending {
			l.drop() // what serves until now must not be used any more
		}
		return 0, err
	}
	if err := l.connect(ctx, inputs, credential, changed); err != nil {
		return 0, err
	}
	s.peers.report(l.id, accessReady, "")
	s.offer(l.id, l.source)
	if left := renewIn(credential, peerLife); s.peers.issued(l.id) && left > retryMost {
		return left, nil
	}
	return retryMost, nil // on the swapped credential, or an old one: ask for one of our own again soon
}

func (l *peerLink) read() (linkInputs, error) {
	copies := l.session.registry.byID(l.id)
	if len(copies) == 0 {
		l.drop()
		return linkInputs{}, &accessError{accessPending, errors.New("its Cluster object is gone")}
	}
	c := copies[0]
	in := linkInputs{endpoints: c.Spec.KubernetesAPIEndpoints, disabled: has(c, v1alpha1.AnnotationClusterDisabled)}
	if ref := c.Spec.AuthInfo.SecretRef; ref.Name != "" && ref.Namespace != l.session.options.privateNamespace() {
		in.secret = ref.Namespace + "/" + ref.Name + "@" + l.session.registry.secretVersion(ref)
	}
	return in, nil
}

// credential finds the kubeconfig to use: the one that the peer's agent issued to us while it is good, else
// a new one from that agent over the mesh, else the swapped one.
func (l *peerLink) credential(ctx context.Context, in linkInputs) ([]byte, error) {
	s := l.session
	kept, err := s.private.credential(ctx, l.id)
	if err != nil {
		return nil, &accessError{accessPending, err}
	}
	if l.source != nil && l.source.refused.Load() && bytes.Equal(kept, l.kubeconfig) {
		kept = nil // it was tried and is not accepted any more
	}
	if kept != nil && renewIn(kept, peerLife) > 0 {
		l.took(true)
		return kept, nil
	}
	issued, meshErr := s.mesh.Credential(ctx, l.id)
	if meshErr == nil {
		if _, err := kube.ParseKubeconfig(issued); err != nil {
			return nil, &accessError{accessInvalid, fmt.Errorf("the credential that its agent issued: %w", err)}
		}
		if err := s.private.recordCredential(ctx, l.id, issued); err != nil {
			return nil, &accessError{accessPending, err}
		}
		l.took(true)
		return issued, nil
	}
	if kept != nil && renewIn(kept, 0) > 0 {
		l.took(true)
		return kept, nil
	}
	pasted, err := l.pasted(ctx, in)
	if err != nil {
		return nil, &accessError{accessInvalid, err}
	}
	if pasted == nil {
		return nil, &accessError{accessMissing, fmt.Errorf("no credential: paste its Secret, or wait for its agent: %w", meshErr)}
	}
	l.took(false)
	return pasted, nil
}

// pasted reads the Secret that the local Cluster object names; nil when there is none. It is the user's:
// read, never edited or deleted.
func (l *peerLink) pasted(ctx context.Context, in linkInputs) ([]byte, error) {
	if in.secret == "" {
		return nil, nil
	}
	name, _, _ := strings.Cut(in.secret, "@")
	namespace, name, _ := strings.Cut(name, "/")
	secret, err := l.session.client.Kube.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read Secret %s/%s: %w", namespace, name, err)
	case secret.Type != v1alpha1.SecretType:
		return nil, fmt.Errorf("the pasted Secret %s/%s has type %s: paste one of type %s", namespace, name, secret.Type, v1alpha1.SecretType)
	}
	kubeconfig := secret.Data[v1alpha1.SecretKubeconfigKey]
	if _, err := kube.ParseKubeconfig(kubeconfig); err != nil {
		return nil, fmt.Errorf("the pasted Secret %s/%s, key %s: %w", namespace, name, v1alpha1.SecretKubeconfigKey, err)
	}
	return kubeconfig, nil
}

// took records whether the credential in use is one of our own, which the local Cluster object then names.
func (l *peerLink) took(issued bool) {
	if l.session.peers.setIssued(l.id, issued) {
		l.session.incoming.add(clusterKey(l.id))
	}
}

// connect proves that the peer's API server answers; when nothing but the token changed, it is replaced
// under the watches that are open.
func (l *peerLink) connect(ctx context.Context, in linkInputs, kubeconfig []byte, changed bool) error {
	s := l.session
	config, err := kube.PeerConfig(kubeconfig, in.endpoints, s.options.NetworkName)
	if err != nil {
		return &accessError{accessInvalid, err}
	}
	if l.source != nil && !changed && l.source.token != nil && l.source.host == config.Host && config.BearerToken != "" {
		l.source.token.replace(config.BearerToken)
		l.source.refused.Store(false)
		l.kubeconfig = kubeconfig
		return nil
	}
	token := takeToken(config)
	client, err := kube.NewClient(config)
	if err != nil {
		return &accessError{accessInvalid, err}
	}
	if err := kube.VerifyPeer(ctx, client, l.id); err != nil {
		client.Close()
		if l.source == nil || !errors.Is(err, kube.ErrUnreachable) {
			l.drop()
		}
		return err
	}
	l.drop()
	l.kubeconfig, l.source = kubeconfig, &peerSource{session: s, id: l.id, client: client, token: token, host: config.Host}
	return nil
}

// drop takes the source away from the engine: what was copied from this peer is frozen from here on.
func (l *peerLink) drop() {
	l.session.offer(l.id, nil)
	if l.source != nil {
		l.source.client.Close()
	}
	l.source, l.kubeconfig = nil, nil
}

// accessError says in which way access failed.
type accessError struct {
	access access
	err    error
}

func (e *accessError) Error() string { return e.err.Error() }
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
