// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/roster-mesh/roster/agent/apiconn"
	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

const (
	// askTimeout bounds how long a peer's agent may take to issue a credential.
	askTimeout = 5 * time.Second
	// rejectedFor is how long a credential is not tried again that was not accepted: the API server may have been wrong.
	rejectedFor = 5 * time.Minute
)

// credentials finds the credential for one peer. Its link alone uses it.
type credentials struct {
	options    *Options
	id         string
	clock      apiconn.Clock // of the peer's API server
	kept       *kube.Secret  // with the one that was issued to us last; nil when it is to be read, as after each error
	rejected   [2][]byte     // the last ones that the API server did not accept
	rejectedAt time.Time
}

// find returns the kubeconfig to use: the one that the peer's agent issued to us while it is good, else a new one from
// that agent, else the one in the Secret pasted.
func (c *credentials) find(ctx context.Context, pasted v1alpha1.NamespacedName) (kubeconfig []byte, issued bool, err error) {
	if c.kept == nil {
		if c.kept, err = readKept(ctx, c.options.Store, c.id); err != nil {
			return nil, false, &accessError{apiconn.Pending, err}
		}
	}
	kept := c.kept.Data[v1alpha1.SecretKubeconfigKey]
	if c.isRejected(kept) {
		kept = nil // it was tried and is not accepted any more
	}
	if kept != nil && c.clock.RenewIn(kept) > 0 {
		return kept, true, nil
	}
	fresh, err := c.ask(ctx)
	if err != nil {
		return nil, false, err
	}
	if fresh != nil {
		return fresh, true, nil
	}
	if kept != nil && !c.clock.Over(kept) {
		return kept, true, nil
	}
	swapped, err := c.readPasted(ctx, pasted)
	switch {
	case swapped != nil:
		return swapped, false, nil
	case kept != nil: // one that should be over is tried, too: the API server knows, and clocks are wrong at times
		return kept, true, nil
	case err != nil:
		return nil, false, err
	}
	return nil, false, &accessError{apiconn.Missing, errors.New("no credential: paste its Secret, or wait until its agent is met in the mesh and hands one over")}
}

// reject remembers that the API server did not accept a kubeconfig. There are two at most that would be tried in
// turn: the one that was issued to us last, and the pasted one.
func (c *credentials) reject(kubeconfig []byte) {
	if !c.isRejected(kubeconfig) {
		c.rejected = [2][]byte{kubeconfig, c.rejected[0]}
	}
	c.rejectedAt = time.Now()
}

func (c *credentials) isRejected(kubeconfig []byte) bool {
	return kubeconfig != nil && time.Since(c.rejectedAt) < rejectedFor && (bytes.Equal(kubeconfig, c.rejected[0]) || bytes.Equal(kubeconfig, c.rejected[1]))
}

// ask has the peer's agent issue a credential to us and keeps it; nil when that agent is not there, or
// cannot.
func (c *credentials) ask(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	issued, err := c.options.Ask(ctx, c.id)
	if err != nil {
		c.options.Log.Debug("no credential from a member", "cluster", c.id, "error", err)
		return nil, nil // there are other places to look
	}
	if issued == nil {
		return nil, nil
	}
	if _, err := kube.ParseKubeconfig(issued); err != nil {
		return nil, &accessError{apiconn.Invalid, fmt.Errorf("the credential that its agent issued: %w", err)}
	}
	c.clock.Issued(issued)
	if err := keep(ctx, c.options.Store, c.id, c.kept, issued); err != nil {
		return nil, &accessError{apiconn.Pending, err}
	}
	return issued, nil
}

// readPasted reads the Secret that the local Cluster object names; nil when there is none. It is the user's:
// read, never edited or deleted.
func (c *credentials) readPasted(ctx context.Context, ref v1alpha1.NamespacedName) ([]byte, error) {
	if ref.Name == "" {
		return nil, nil
	}
	name := ref.Namespace + "/" + ref.Name
	secret, err := c.options.Client.Secrets(ref.Namespace).Read(ctx, ref.Name)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case apierrors.IsForbidden(err):
		return nil, &accessError{apiconn.Invalid, fmt.Errorf("the agent may not read Secret %s: paste it into namespace %s and name it in spec.authInfo.secretRef", name, c.options.Namespace)}
	case err != nil:
		return nil, &accessError{apiconn.Pending, fmt.Errorf("read Secret %s: %w", name, err)}
	case secret.Type != v1alpha1.SecretType:
		return nil, &accessError{apiconn.Invalid, fmt.Errorf("the pasted Secret %s has type %s: paste one of type %s", name, secret.Type, v1alpha1.SecretType)}
	}
	kubeconfig := secret.Data[v1alpha1.SecretKubeconfigKey]
	if _, err := kube.ParseKubeconfig(kubeconfig); err != nil {
		return nil, &accessError{apiconn.Invalid, fmt.Errorf("the pasted Secret %s, key %s: %w", name, v1alpha1.SecretKubeconfigKey, err)}
	}
	if c.isRejected(kubeconfig) {
		return nil, &accessError{apiconn.Invalid, fmt.Errorf("the pasted Secret %s: %w: paste a fresh one", name, kube.ErrUnauthorized)}
	}
	return kubeconfig, nil
}
