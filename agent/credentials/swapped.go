// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/roster-mesh/roster/agent/apiconn"
	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// A bootstrap credential is of the account v1alpha1.SwapAccount, which reads the registry alone: not the Secret with its
// successor. It is bound to the Secret v1alpha1.SwapSecret. With Options.LegacyToken it is of a reader's account, as in
// earlier releases.

// boundTo is the Secret that bootstrap credentials are bound to, which it creates where it is missing; nil with
// LegacyToken. Earlier releases issued credentials of another account. That is deleted when the last of these has expired:
// none was issued since the Secret is there.
func (c *Credentials) boundTo(ctx context.Context) (*kube.Secret, error) {
	if c.options.LegacyToken {
		return nil, c.endSwapped(ctx)
	}
	bound, err := c.options.Store.Read(ctx, v1alpha1.SwapSecret)
	if apierrors.IsNotFound(err) {
		bound, err = c.options.Store.Secrets().Create(ctx, c.options.Store.NewSecret(v1alpha1.SwapSecret, nil))
	}
	if err != nil {
		return nil, err
	}
	if made := bound.CreationTimestamp; !c.legacyEnded && !made.IsZero() && c.options.Clock.Now().Sub(made.Time) > bootstrapLife {
		if err := c.options.Issuer.Revoke(ctx, legacyAccount); err != nil {
			return nil, err
		}
		c.legacyEnded = true
	}
	return bound, nil
}

// endSwapped ends the bootstrap credentials that are bound to the Secret.
func (c *Credentials) endSwapped(ctx context.Context) error {
	_, err := c.options.Store.Delete(ctx, v1alpha1.SwapSecret)
	return err
}

// isPresent reports whether a credential is of the kind that is issued now, and not ended. bound is the result of boundTo.
func (c *Credentials) isPresent(kubeconfig []byte, bound *kube.Secret) bool {
	claims := apiconn.ClaimsOf(kubeconfig)
	if bound == nil {
		return claims.Of(v1alpha1.ReadersNamespace(c.options.Namespace), legacyAccount)
	}
	return claims.Of(bound.Namespace, v1alpha1.SwapAccount) && claims.Kubernetes.Secret.UID == string(bound.UID)
}
