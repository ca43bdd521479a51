// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/mesh"
)

// Secrets in the private namespace and their keys.
const (
	identitySecret = "roster-identity"
	identityKey    = "ed25519.key" // PEM, PKCS#8
	epochKey       = "epoch"       // decimal
	freezeKey      = "restored"    // freeze, while a restore waits for its confirmation
	trustSecret    = "roster-trust"
	copiesSecret   = "roster-copies"
	scopesKey      = "scopes" // of engine, JSON
	peerSecret     = "peer-"  // + clusterID

	positionsSecret = "roster-positions"
	positionsKey    = "positions" // peerNote, JSON lines, gzip
)

// ErrIdentityLost is returned when the cluster's public key is recorded but its private key is gone. A
// second key is never minted by itself: every member would refuse it, and rightly so.
var ErrIdentityLost = errors.New("the private key of this cluster is lost")

// private is what the agent keeps for itself in <namespace>-private.
type private struct {
	client    *kube.Client
	namespace string
}

// identity reads the cluster's key, or makes it when no public key was ever recorded.
func (p *private) identity(ctx context.Context, clusterID string, recorded []byte) (ed25519.PrivateKey, error) {
	secret, err := p.client.Secrets(p.namespace).Read(ctx, identitySecret)
	switch {
	case apierrors.IsNotFound(err) && len(recorded) > 0:
		return nil, fmt.Errorf("%w: Secret %s/%s is missing, but this cluster's Cluster object records a public key; restore the Secret from a backup, or give the key up: agentctl join --replace-key", ErrIdentityLost, p.namespace, identitySecret)
	case apierrors.IsNotFound(err):
		return p.mint(ctx, clusterID)
	case err != nil:
		return nil, fmt.Errorf("read Secret %s/%s: %w", p.namespace, identitySecret, err)
	}
	key, err := mesh.ParsePrivateKey(secret.Data[identityKey])
	if err != nil {
		return nil, fmt.Errorf("read Secret %s/%s, key %s: %w", p.namespace, identitySecret, identityKey, err)
	}
	if len(recorded) > 0 && !key.Public().(ed25519.PublicKey).Equal(ed25519.PublicKey(recorded)) {
		return nil, fmt.Errorf("%w: Secret %s/%s and the Cluster object of this cluster have different keys; restore the Secret from a backup, or put its public key back into spec.mesh.publicKey if that was edited", ErrIdentityLost, p.namespace, identitySecret)
	}
	return key, nil
}

func (p *private) mint(ctx context.Context, clusterID string) (ed25519.PrivateKey, error) {
	key, err := mesh.GenerateKey()
	if err != nil {
		return nil, fmt.Errorf("make identity key: %w", err)
	}
	data, err := mesh.MarshalPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode identity key: %w", err)
	}
	secret := &kube.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: identitySecret, Namespace: p.namespace, Labels: managedLabels()},
		Data:       map[string][]byte{identityKey: data, epochKey: []byte("0"), "clusterID": []byte(clusterID)},
	}
	_, err = p.client.Secrets(p.namespace).Create(ctx, secret)
	if apierrors.IsAlreadyExists(err) { // another agent of this cluster was quicker: its key is the cluster's
		return p.identity(ctx, clusterID, nil)
	}
	if err != nil {
		return nil, fmt.Errorf("create Secret %s/%s: %w", p.namespace, identitySecret, err)
	}
	return key, nil
}

// openEpoch records and returns an epoch above every one that was recorded and above floor. It is on disk at
// the API server before anything is signed in it, so no two starts ever share an epoch.
func (p *private) openEpoch(ctx context.Context, floor uint64) (uint64, error) {
	var epoch uint64
	err := onConflict(func() error {
		secret, err := p.client.Secrets(p.namespace).Read(ctx, identitySecret)
		if err != nil {
			return err
		}
		last, err := lastEpoch(secret)
		if err != nil {
			return err
		}
		epoch = max(last, floor) + 1
		secret.Data[epochKey] = []byte(strconv.FormatUint(epoch, 10))
		_, err = p.client.Secrets(p.namespace).Update(ctx, secret)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("record epoch in Secret %s/%s: %w", p.namespace, identitySecret, err)
	}
	return epoch, nil
}

func lastEpoch(secret *kube.Secret) (uint64, error) {
	text := string(secret.Data[epochKey])
	if text == "" {
		return 0, nil
	}
	last, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("key %s: %q is not a number", epochKey, text)
	}
	return last, nil
}

// resumeEpoch returns the epoch to go on in when what the disk holds ends in the epoch held. That is this one, unless
// another has been recorded since: by an agent with another disk. When the record is the older one the API
// server was restored from a backup, which is to be confirmed as any other restore.
func (p *private) resumeEpoch(ctx context.Context, held uint64) (uint64, error) {
	secret, err := p.client.Secrets(p.namespace).Read(ctx, identitySecret)
	if err != nil {
		return 0, fmt.Errorf("read Secret %s/%s: %w", p.namespace, identitySecret, err)
	}
	last, err := lastEpoch(secret)
	switch {
	case err != nil:
		return 0, fmt.Errorf("read Secret %s/%s: %w", p.namespace, identitySecret, err)
	case held == 0 || last > held:
		return p.openEpoch(ctx, held)
	case last == held:
		return held, nil
	}
	secret.Data[epochKey] = []byte(strconv.FormatUint(held, 10))
	if len(secret.Data[freezeKey]) == 0 {
		secret.Data[freezeKey] = []byte("{}")
	}
	if _, err := p.client.Secrets(p.namespace).Update(ctx, secret); err != nil {
		return 0, fmt.Errorf("record epoch in Secret %s/%s: %w", p.namespace, identitySecret, err)
	}
	return held, nil
}

// freeze reads whether a restore was waiting for its confirmation when the agent ended; nil when none was. A record
// that cannot be read was one.
func (p *private) freeze(ctx context.Context) (*freeze, error) {
	secret, err := p.client.Secrets(p.namespace).Read(ctx, identitySecret)
	if err != nil {
		return nil, fmt.Errorf("read Secret %s/%s: %w", p.namespace, identitySecret, err)
	}
	data := secret.Data[freezeKey]
	if len(data) == 0 {
		return nil, nil
	}
	out := &freeze{}
	if err := json.Unmarshal(data, out); err != nil {
		return &freeze{}, nil //nolint:nilerr // what was there before it must be looked up again
	}
	return out, nil
}

// recordFreeze keeps what freeze reads; it writes only when that changes.
func (p *private) recordFreeze(ctx context.Context, now *freeze) error {
	var data []byte
	if now != nil {
		var err error
		if data, err = json.Marshal(now); err != nil {
			return fmt.Errorf("encode the record of a restore: %w", err)
		}
	}
	return p.changeIdentity(ctx, func(secret *kube.Secret) bool {
		if string(secret.Data[freezeKey]) == string(data) {
			return false
		}
		if secret.Data[freezeKey] = data; now == nil {
			delete(secret.Data, freezeKey)
		}
		return true
	})
}

// changeIdentity alters the Secret with the cluster's key; alter says whether it did.
func (p *private) changeIdentity(ctx context.Context, alter func(*kube.Secret) bool) error {
	err := onConflict(func() error {
		secret, err := p.client.Secrets(p.namespace).Read(ctx, identitySecret)
		if err != nil || !alter(secret) {
			return err
		}
		_, err = p.client.Secrets(p.namespace).Update(ctx, secret)
		return err
	})
	if err != nil {
		return fmt.Errorf("change Secret %s/%s: %w", p.namespace, identitySecret, err)
	}
	return nil
}

// pinRecord is one pin as the trust Secret keeps it, under its clusterID.
type pinRecord struct {
	PublicKey  []byte `json:"publicKey"`
	Introducer string `json:"introducer,omitempty"`
}

// pins reads the recorded pins. They win over the Cluster objects, which anybody with write access to this
// cluster may have edited while the agent was away.
func (p *private) pins(ctx context.Context, log *slog.Logger) ([]mesh.Pin, error) {
	secret, err := p.client.Secrets(p.namespace).Read(ctx, trustSecret)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read Secret %s/%s: %w", p.namespace, trustSecret, err)
	}
	pins := make([]mesh.Pin, 0, len(secret.Data))
	for id, data := range secret.Data {
		var r pinRecord
		if err := json.Unmarshal(data, &r); err != nil || len(r.PublicKey) != ed25519.PublicKeySize {
			log.Error("a recorded pin cannot be read and is ignored", "secret", p.namespace+"/"+trustSecret, "cluster", id)
			continue
		}
		pins = append(pins, mesh.Pin{ClusterID: id, PublicKey: r.PublicKey, Introducer: r.Introducer})
	}
	return pins, nil
}

// recordPins makes the trust Secret hold exactly pins; it writes only when that changes it.
func (p *private) recordPins(ctx context.Context, pins []mesh.Pin) error {
	data := make(map[string][]byte, len(pins))
	for _, pin := range pins {
		if len(validation.IsConfigMapKey(pin.ClusterID)) > 0 {
			continue // no Secret can keep it; no cluster has such an ID either
		}
		record, err := json.Marshal(pinRecord{PublicKey: pin.PublicKey, Introducer: pin.Introducer})
		if err != nil {
			return fmt.Errorf("encode pin: %w", err)
		}
		data[pin.ClusterID] = record
	}
	return p.record(ctx, &kube.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: trustSecret, Namespace: p.namespace, Labels: managedLabels()},
		Data:       data,
	})
}

// credential reads the Secret with the kubeconfig that was kept for a peer; one without a version is not there.
func (p *private) credential(ctx context.Context, clusterID string) (*kube.Secret, error) {
	secret, err := p.client.Secrets(p.namespace).Read(ctx, peerSecret+clusterID)
	if apierrors.IsNotFound(err) {
		return &kube.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: peerSecret + clusterID, Namespace: p.namespace, Labels: managedLabels()},
			Type:       v1alpha1.SecretType,
		}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read Secret %s/%s: %w", p.namespace, peerSecret+clusterID, err)
	}
	secret.ManagedFields = nil
	return secret, nil
}

// recordCredential keeps the kubeconfig that a peer's agent issued to us in kept, which credential has read, in one
// request where nobody wrote or deleted it since. After an error it is to be read again.
func (p *private) recordCredential(ctx context.Context, kept *kube.Secret, kubeconfig []byte) error {
	err := p.writeCredential(ctx, kept, kubeconfig)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) {
		var now *kube.Secret
		if now, err = p.credential(ctx, strings.TrimPrefix(kept.Name, peerSecret)); err == nil {
			*kept = *now
			err = p.writeCredential(ctx, kept, kubeconfig)
		}
	}
	if err != nil {
		return fmt.Errorf("record Secret %s/%s: %w", kept.Namespace, kept.Name, err)
	}
	return nil
}

func (p *private) writeCredential(ctx context.Context, kept *kube.Secret, kubeconfig []byte) error {
	secrets, write := p.client.Secrets(p.namespace), kube.Objects[kube.Secret].Update
	if kept.ResourceVersion == "" {
		write = kube.Objects[kube.Secret].Create
	}
	kept.Data = map[string][]byte{v1alpha1.SecretKubeconfigKey: kubeconfig}
	stored, err := write(secrets, ctx, kept)
	if err == nil {
		kept.ObjectMeta = stored.ObjectMeta
		kept.ManagedFields = nil
	}
	return err
}

// record creates the Secret or replaces the data of the one that is there.
func (p *private) record(ctx context.Context, want *kube.Secret) error {
	if err := applySecret(ctx, p.client, want); err != nil {
		return fmt.Errorf("record Secret %s/%s: %w", want.Namespace, want.Name, err)
	}
	return nil
}

func applySecret(ctx context.Context, client *kube.Client, want *kube.Secret) error {
	secrets := client.Secrets(want.Namespace)
	return onConflict(func() error {
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

// managedLabels marks what the agent made for itself.
func managedLabels() map[string]string {
	return map[string]string{"app.kubernetes.io/managed-by": "roster-agent"}
}
