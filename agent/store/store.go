// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"fmt"
	"maps"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/kube"
)

// IdentitySecret is the Secret with the key of the cluster. Other parts keep keys in it that must not outlive the
// cluster's key, or that must change in the same update as the epoch.
const IdentitySecret = "roster-identity"

// Store reads and writes the Secrets of one namespace. It has no state, and is safe for concurrent use.
type Store struct {
	client    *kube.Client
	namespace string
}

// New returns the store of a namespace.
func New(client *kube.Client, namespace string) *Store {
	return &Store{client: client, namespace: namespace}
}

// Namespace is the namespace of the Secrets.
func (s *Store) Namespace() string { return s.namespace }

// Secrets gives direct access, for updates with preconditions of their own.
func (s *Store) Secrets() kube.Objects[kube.Secret] { return s.client.Secrets(s.namespace) }

// Read returns a Secret, or a NotFound error.
func (s *Store) Read(ctx context.Context, name string) (*kube.Secret, error) {
	secret, err := s.Secrets().Read(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("read Secret %s/%s: %w", s.namespace, name, err)
	}
	return secret, nil
}

// NewSecret returns a Secret to be created. It sends no request.
func (s *Store) NewSecret(name string, data map[string][]byte) *kube.Secret {
	return &kube.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.namespace, Labels: ManagedLabels()},
		Data:       data,
	}
}

// Replace creates a Secret, or replaces its data. It writes only if the data differs.
func (s *Store) Replace(ctx context.Context, name string, data map[string][]byte) error {
	if err := Apply(ctx, s.client, s.NewSecret(name, data)); err != nil {
		return fmt.Errorf("record Secret %s/%s: %w", s.namespace, name, err)
	}
	return nil
}

// Change updates an existing Secret, and retries after a conflict. alter returns whether it changed anything, and may
// be called several times. The Data that it gets is not nil.
func (s *Store) Change(ctx context.Context, name string, alter func(*kube.Secret) (bool, error)) error {
	err := OnConflict(func() error {
		secret, err := s.Secrets().Read(ctx, name)
		if err != nil {
			return err
		}
		if secret.Data == nil {
			secret.Data = map[string][]byte{}
		}
		if changed, err := alter(secret); err != nil || !changed {
			return err
		}
		_, err = s.Secrets().Update(ctx, secret)
		return err
	})
	if err != nil {
		return fmt.Errorf("change Secret %s/%s: %w", s.namespace, name, err)
	}
	return nil
}

// SetKey sets one key of an existing Secret; nil deletes the key. It writes only if the value differs.
func (s *Store) SetKey(ctx context.Context, name, key string, value []byte) error {
	return s.Change(ctx, name, func(secret *kube.Secret) (bool, error) {
		if string(secret.Data[key]) == string(value) {
			return false, nil
		}
		if secret.Data[key] = value; value == nil {
			delete(secret.Data, key)
		}
		return true, nil
	})
}

// Delete deletes a Secret, and returns whether it existed.
func (s *Store) Delete(ctx context.Context, name string) (found bool, err error) {
	err = s.Secrets().Delete(ctx, name, nil)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("delete Secret %s/%s: %w", s.namespace, name, err)
	}
	return true, nil
}

// Apply creates a Secret, in any namespace, or replaces the data of the existing one.
func Apply(ctx context.Context, client *kube.Client, want *kube.Secret) error {
	secrets := client.Secrets(want.Namespace)
	return OnConflict(func() error {
		have, err := secrets.Read(ctx, want.Name)
		if apierrors.IsNotFound(err) {
			_, err = secrets.Create(ctx, want)
			if !apierrors.IsAlreadyExists(err) {
				return err
			}
			have, err = secrets.Read(ctx, want.Name)
		}
		if err != nil {
			return err
		}
		if maps.EqualFunc(have.Data, want.Data, func(a, b []byte) bool { return string(a) == string(b) }) {
			return nil
		}
		have.Data = want.Data
		_, err = secrets.Update(ctx, have)
		return err
	})
}

// ManagedLabels are the labels of Secrets that the agent manages.
func ManagedLabels() map[string]string {
	return map[string]string{"app.kubernetes.io/managed-by": "roster-agent"}
}
