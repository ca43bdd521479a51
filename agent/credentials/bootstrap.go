// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roster-mesh/roster/agent/store"
	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// minRecheck is the shortest time between two checks of the bootstrap credential, however short the life of tokens is,
// and however often the clock moves, as with several API servers that have different clocks.
const minRecheck = time.Minute

// Recheck checks the bootstrap credential again: its Secret changed, or must have another name.
func (c *Credentials) Recheck() { c.renewing.Trigger() }

// ClockMoved reports that the API server's clock was set, or that this machine was suspended: the bootstrap credential
// expires sooner or later than was calculated.
func (c *Credentials) ClockMoved() { c.renewing.TriggerAfter(minRecheck) }

// Expires is when the bootstrap credential expires, by the clock of the API server; false if that is not known.
func (c *Credentials) Expires() (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.expires, !c.expires.IsZero()
}

// Reissue revokes the bootstrap credential, which a removed cluster may know, and issues another one. If only that cannot be
// done, it is reported, Run tries again, and nothing has to be revoked again: Reissue returns no error. It also deletes the
// account that all members shared in earlier releases.
func (c *Credentials) Reissue(ctx context.Context) error {
	_, problem, err := c.attempt(ctx, true)
	if err != nil {
		return err
	}
	if c.options.Problem(problem) != nil {
		c.renewing.Trigger()
	}
	return nil
}

// renew issues the bootstrap credential if it is due, and schedules the next check.
func (c *Credentials) renew(ctx context.Context) error {
	next, err := c.ensure(ctx)
	if err == nil && next > 0 {
		c.renewing.TriggerAfter(max(next, minRecheck))
	}
	return err
}

// ensure makes the Secret hold a valid bootstrap credential. It returns when to call it again, 0 for never.
func (c *Credentials) ensure(ctx context.Context) (next time.Duration, err error) {
	next, problem, err := c.attempt(ctx, false)
	if err != nil {
		return 0, err
	}
	return next, c.options.Problem(problem)
}

// attempt does the work of ensure, and with revoke makes it another credential than before. It holds issuing, so that a token that was issued before its account was revoked is
// never the one in the Secret. problem is what is wrong with the credential; err is why that is not known.
func (c *Credentials) attempt(ctx context.Context, revoke bool) (next time.Duration, problem, err error) {
	c.issuing.Lock()
	defer c.issuing.Unlock()
	if revoke {
		if err := errors.Join(c.endSwapped(ctx), c.options.Issuer.Revoke(ctx, legacyAccount), c.options.Issuer.Revoke(ctx, readerAccount)); err != nil {
			return 0, nil, err
		}
		c.replace = true
	}
	if !c.options.ManageSecret {
		return 0, nil, nil
	}
	name := types.NamespacedName{Namespace: c.options.Namespace, Name: c.options.Name()}
	have, err := c.options.Client.Secrets(name.Namespace).Read(ctx, name.Name)
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return 0, nil, fmt.Errorf("read Secret %s: %w", name, err)
	case have.Type != v1alpha1.SecretType:
		return 0, fmt.Errorf("the credential of this cluster: Secret %s has type %s, not %s, and is left alone: delete it or set --manage-secret=false", name, have.Type, v1alpha1.SecretType), nil
	}
	bound, err := c.boundTo(ctx)
	if err != nil {
		return 0, nil, err
	}
	if have != nil && !c.replace && c.isPresent(have.Data[v1alpha1.SecretKubeconfigKey], bound) {
		if left := c.use(have.Data[v1alpha1.SecretKubeconfigKey]); left > 0 {
			return left, nil, nil
		}
	}
	return c.issueLocked(ctx, name, bound)
}

// use takes over the credential in the Secret, and returns how long it may stay there.
func (c *Credentials) use(kubeconfig []byte) time.Duration {
	if _, err := kube.ParseKubeconfig(kubeconfig); err != nil {
		return 0
	}
	left := c.options.Clock.RenewIn(kubeconfig)
	if left > 0 {
		c.setExpires(kubeconfig)
	}
	return left
}

// issueLocked issues another credential, and writes it to the Secret. bound is the result of boundTo.
func (c *Credentials) issueLocked(ctx context.Context, name types.NamespacedName, bound *kube.Secret) (next time.Duration, problem, err error) {
	var issued kube.Credential
	if bound != nil {
		issued, err = c.options.Issuer.IssueBound(ctx, v1alpha1.SwapAccount, bound, bootstrapLife)
	} else {
		issued, err = c.options.Issuer.Issue(ctx, legacyAccount, bootstrapLife)
	}
	switch {
	case bound != nil && (apierrors.IsNotFound(err) || errors.Is(err, kube.ErrForbidden)):
		return 0, fmt.Errorf("issue the credential that peers are given: upgrade the chart, which makes ServiceAccount %s/%s and lets the agent issue its tokens: %w", bound.Namespace, v1alpha1.SwapAccount, err), nil
	case err != nil:
		return 0, fmt.Errorf("issue the credential that peers are given: %w", err), nil
	}
	c.options.Clock.Issued(issued.Kubeconfig)
	err = store.Apply(ctx, c.options.Client, &kube.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name.Name, Namespace: name.Namespace, Labels: store.ManagedLabels()},
		Type:       v1alpha1.SecretType,
		Data:       map[string][]byte{v1alpha1.SecretKubeconfigKey: issued.Kubeconfig},
	})
	if err != nil {
		return 0, fmt.Errorf("write Secret %s: %w", name, err), nil
	}
	c.replace = false
	c.setExpires(issued.Kubeconfig)
	return max(c.options.Clock.RenewIn(issued.Kubeconfig), 1), nil, nil
}

func (c *Credentials) setExpires(kubeconfig []byte) {
	if _, until, ok := kube.KubeconfigValidity(kubeconfig); ok {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.expires = until
	}
}
