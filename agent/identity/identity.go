// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/roster-mesh/roster/agent/store"
	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/mesh"
)

// Keys of store.IdentitySecret.
const (
	keyKey       = "ed25519.key" // PEM, PKCS#8
	nextKey      = "next.key"    // likewise: what Replace puts in its place
	epochKey     = "epoch"       // decimal
	clusterIDKey = "clusterID"   // for a reader; the agent does not use it
)

// ErrLost is returned when the cluster's public key is recorded, but its private key is missing. The agent does not
// make another key by itself: every member would refuse it.
var ErrLost = errors.New("the private key of this cluster is lost")

// Identity reads and writes the key and the epoch of this cluster. It has no state, and is safe for concurrent use.
type Identity struct{ store *store.Store }

// New returns the identity in that store.
func New(store *store.Store) *Identity { return &Identity{store} }

// Key returns the cluster's key. It makes one if none exists and recorded is empty. recorded is the public key in the
// cluster's Cluster object, nil for none. The error is ErrLost if recorded is not the public part of the key.
func (i *Identity) Key(ctx context.Context, clusterID string, recorded []byte) (ed25519.PrivateKey, error) {
	name := i.store.Namespace() + "/" + store.IdentitySecret
	secret, err := i.store.Read(ctx, store.IdentitySecret)
	switch {
	case apierrors.IsNotFound(err) && len(recorded) > 0:
		return nil, fmt.Errorf("%w: Secret %s is missing, but this cluster's Cluster object records a public key; restore the Secret from a backup, or give the key up: agentctl join --replace-key", ErrLost, name)
	case apierrors.IsNotFound(err):
		return i.mint(ctx, clusterID)
	case err != nil:
		return nil, err
	}
	key, err := mesh.ParsePrivateKey(secret.Data[keyKey])
	if err != nil {
		return nil, fmt.Errorf("read Secret %s, key %s: %w", name, keyKey, err)
	}
	if len(recorded) > 0 && !key.Public().(ed25519.PublicKey).Equal(ed25519.PublicKey(recorded)) {
		return nil, fmt.Errorf("%w: Secret %s and the Cluster object of this cluster have different keys; restore the Secret from a backup, or put its public key back into spec.mesh.publicKey if that was edited", ErrLost, name)
	}
	return key, nil
}

// mint makes the key and the Secret.
func (i *Identity) mint(ctx context.Context, clusterID string) (ed25519.PrivateKey, error) {
	key, data, err := newKey()
	if err != nil {
		return nil, err
	}
	secret := i.store.NewSecret(store.IdentitySecret, map[string][]byte{keyKey: data, epochKey: []byte("0"), clusterIDKey: []byte(clusterID)})
	_, err = i.store.Secrets().Create(ctx, secret)
	if apierrors.IsAlreadyExists(err) { // another agent of this cluster was first: use its key
		return i.Key(ctx, clusterID, nil)
	}
	if err != nil {
		return nil, fmt.Errorf("create Secret %s/%s: %w", i.store.Namespace(), store.IdentitySecret, err)
	}
	return key, nil
}

// newKey returns a new key, and its encoding in the Secret.
func newKey() (key ed25519.PrivateKey, data []byte, err error) {
	if key, err = mesh.GenerateKey(); err != nil {
		return nil, nil, fmt.Errorf("make identity key: %w", err)
	}
	if data, err = mesh.MarshalPrivateKey(key); err != nil {
		return nil, nil, fmt.Errorf("encode identity key: %w", err)
	}
	return key, data, nil
}

// Next is the public part of the key that Replace will give this cluster. It is made once, and recorded.
func (i *Identity) Next(ctx context.Context) (next ed25519.PublicKey, err error) {
	fresh, data, err := newKey()
	if err != nil {
		return nil, err
	}
	err = i.store.Change(ctx, store.IdentitySecret, func(secret *kube.Secret) (bool, error) {
		if held, err := mesh.ParsePrivateKey(secret.Data[nextKey]); err == nil {
			next = held.Public().(ed25519.PublicKey)
			return false, nil
		}
		next, secret.Data[nextKey] = fresh.Public().(ed25519.PublicKey), data
		return true, nil
	})
	return next, err
}

// Replace gives this cluster a new key, that of Next if it was called, unless its key is not old any more. The epoch
// stays, so that members take what this cluster publishes next as newer.
func (i *Identity) Replace(ctx context.Context, old ed25519.PublicKey) error {
	_, data, err := newKey()
	if err != nil {
		return err
	}
	return i.store.Change(ctx, store.IdentitySecret, func(secret *kube.Secret) (bool, error) {
		// A key that cannot be read is replaced, too.
		held, err := mesh.ParsePrivateKey(secret.Data[keyKey])
		if err == nil && !held.Public().(ed25519.PublicKey).Equal(old) {
			return false, nil
		}
		secret.Data[keyKey] = data
		if next := secret.Data[nextKey]; len(next) > 0 {
			if _, err := mesh.ParsePrivateKey(next); err == nil {
				secret.Data[keyKey] = next
			}
			delete(secret.Data, nextKey)
		}
		return true, nil
	})
}
