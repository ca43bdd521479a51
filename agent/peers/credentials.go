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
	"github.com/roster-mesh/roster/mesh/pace"
)

const (
	// askTimeout bounds a request for a credential to a peer's agent.
	askTimeout = 5 * time.Second
	// rejectedFor is how long a credential that the API server refused is not tried again: the API server may have been
	// wrong.
	rejectedFor = 5 * time.Minute
	// absentFor is how long it counts that there is no Secret with an issued credential, if nothing is written: somebody may
	// restore it.
	absentFor = 5 * time.Minute
)

// credentials finds the credential for one peer. Only its link uses it.
type credentials struct {
	options    *Options
	id         string
	claim      func(context.Context, v1alpha1.NamespacedName) (clusterID string, err error) // Peers.claim
	budget     *pace.Budget                                                                 // of what is asked for
	clock      apiconn.Clock                                                                // of the peer's API server
	kept       *kube.Secret                                                                 // the Secret with the last issued credential; nil if it must be read again
	readAt     time.Time                                                                    // when it was read
	rejected   [2][]byte                                                                    // the last ones that the API server refused
	rejectedAt time.Time
}

// find returns the kubeconfig to use: the one that the peer's agent issued while it is valid, else a new one from that
// agent, else the pasted one. issued says that it is one from the agent.
func (c *credentials) find(ctx context.Context, pasted v1alpha1.NamespacedName) (kubeconfig []byte, issued bool, err error) {
	if c.kept == nil {
		if c.kept, err = readKept(ctx, c.options.Store, c.id); err != nil {
			return nil, false, &accessError{apiconn.Pending, err}
		}
		c.readAt = time.Now()
	}
	kept := c.kept.Data[v1alpha1.SecretKubeconfigKey]
	if c.isRejected(kept) {
		kept = nil // it was tried and refused
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
	if kept != nil && !c.clock.Expired(kept) {
		return kept, true, nil
	}
	swapped, err := c.readPasted(ctx, pasted)
	switch {
	case swapped != nil:
		return swapped, false, nil
	case kept != nil: // an expired one is tried, too: a clock may be wrong, and the API server decides
		return kept, true, nil
	case err != nil:
		return nil, false, err
	}
	return nil, false, &accessError{apiconn.Missing, errors.New("no credential: paste its Secret, or wait until its agent is met in the mesh and hands one over")}
}

// failed has the Secret with the issued credential read again: it may have been changed or deleted. That there is none counts for
// a while, since this agent alone makes it: clusters that are not met, of which there may be thousands, cost no request for each try.
func (c *credentials) failed() {
	if c.kept == nil || c.kept.ResourceVersion == "" && c.kept.Data == nil && time.Since(c.readAt) < absentFor {
		return
	}
	c.kept = nil
}

// reject remembers that the API server refused a kubeconfig. At most two alternate: the issued one and the pasted one.
func (c *credentials) reject(kubeconfig []byte) {
	if !c.isRejected(kubeconfig) {
		c.rejected = [2][]byte{kubeconfig, c.rejected[0]}
	}
	c.rejectedAt = time.Now()
}

func (c *credentials) isRejected(kubeconfig []byte) bool {
	return kubeconfig != nil && time.Since(c.rejectedAt) < rejectedFor && (bytes.Equal(kubeconfig, c.rejected[0]) || bytes.Equal(kubeconfig, c.rejected[1]))
}

// ask asks the peer's agent for a credential and stores it. It returns nil if that agent is not reachable, or refuses, or many others
// are asked.
func (c *credentials) ask(ctx context.Context) ([]byte, error) {
	if taken, _ := c.budget.Take(c.id, false); !taken {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	issued, err := c.options.Ask(ctx, c.id)
	if err != nil {
		c.options.Log.Debug("no credential from a member", "cluster", c.id, "error", err)
		return nil, nil // a pasted credential may work
	}
	if issued == nil {
		c.budget.Give(c.id) // nobody was asked
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

// readPasted reads the Secret that the local Cluster object names; nil if there is none. It belongs to the user: the
// agent never edits or deletes it.
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
	holder, err := c.claim(ctx, ref)
	if err != nil {
		return nil, &accessError{apiconn.Pending, err}
	}
	if holder != c.id {
		return nil, &accessError{apiconn.Invalid, fmt.Errorf("the pasted Secret %s serves cluster %s, whose Cluster object named it first: paste another one for this cluster, and name it in spec.authInfo.secretRef", name, c.options.Directory.Registry.Name(holder))}
	}
	if c.isRejected(kubeconfig) {
		return nil, &accessError{apiconn.Invalid, fmt.Errorf("the pasted Secret %s: %w: paste a fresh one", name, kube.ErrUnauthorized)}
	}
	return kubeconfig, nil
}
