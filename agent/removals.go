// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/replica"
)

const (
	// removalsSecret is the first of the Secrets that keep removals; the others have -2, -3, … after it. A Secret
	// holds 1 MiB. A removal takes some 450 bytes, and 1.1 KiB where its author chose the longest names; an ordered one
	// up to 66 bytes more for each member that has not confirmed it. Where these are more than removalsWaiting, as when
	// it was just ordered in a large group, they are not listed: after a restart every member is asked.
	removalsSecret  = "roster-removals"
	removalsEach    = 500
	removalsWaiting = 8
	departedKey     = "departed" // in identitySecret: the clusterIDs that were members when this cluster left
)

// removal is one that is held, and how far it has been carried out here.
type removal struct {
	replica.Removal
	strange bool     // it is about a key that was not pinned here, nor in any object
	ended   bool     // what that cluster had here has ended; what turns up later was put there by somebody
	hearsay bool     // its author's key was not pinned here: another member vouched that it is who it says
	ordered bool     // by a person in this cluster
	waiting []string // of an ordered one: clusterIDs of the members that have not confirmed it
	unasked bool     // it was recorded without them, and every member is to be asked; until resume
}

// removals are those that are held here, in the order in which they are recorded. The zero value holds none.
type removals struct {
	recording sync.Mutex // from reading what to record to having recorded it

	mu       sync.Mutex
	list     []*removal
	pairs    map[pair]*removal
	keys     map[string]*removal // one of each public key
	known    map[string]int      // how many are about a cluster, strange ones not counted
	departed map[string]struct{} // who was a member of a group that this cluster left
}

// pair is what a removal is about.
type pair struct{ clusterID, key string }

func (r *removals) find(id string, key ed25519.PublicKey) *removal {
	return r.pairs[pair{id, string(key)}]
}

// take adds a removal, or another statement of the same.
func (r *removals) take(now removal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if held := r.find(now.ClusterID, now.PublicKey); held != nil {
		held.Removal, held.hearsay = now.Removal, now.hearsay
		if held.strange && !now.strange { // it is about something after all
			held.strange, held.ended = false, false
			r.known[now.ClusterID]++
		}
		return
	}
	if r.pairs == nil {
		r.pairs, r.keys, r.known = map[pair]*removal{}, map[string]*removal{}, map[string]int{}
	}
	r.list = append(r.list, &now)
	r.pairs[pair{now.ClusterID, string(now.PublicKey)}], r.keys[string(now.PublicKey)] = &now, &now
	if !now.strange {
		r.known[now.ClusterID]++
	}
}

// mentions says that the cluster was removed, or was in a group that this one left.
func (r *removals) mentions(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.departed[id]; ok {
		return true
	}
	return r.known[id] > 0
}

// awaits says that a removal which was ordered here is to be confirmed by a cluster.
func (r *removals) awaits(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.list, func(held *removal) bool { return slices.Contains(held.waiting, id) })
}

// mentioned lists the clusters that mentions is true of.
func (r *removals) mentioned() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	ids := maps.Clone(r.departed)
	if ids == nil {
		ids = map[string]struct{}{}
	}
	for id := range r.known {
		ids[id] = struct{}{}
	}
	return slices.Sorted(maps.Keys(ids))
}

// of returns the removal of a cluster's key.
func (r *removals) of(id string, key ed25519.PublicKey) (removal, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if held := r.find(id, key); held != nil {
		return *held, true
	}
	return removal{}, false
}

// ofKey returns a removal of a key, whatever the cluster.
func (r *removals) ofKey(key ed25519.PublicKey) (removal, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if held := r.keys[string(key)]; held != nil {
		return *held, true
	}
	return removal{}, false
}

func (r *removals) all() []removal {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]removal, 0, len(r.list))
	for _, held := range r.list {
		copied := *held
		copied.waiting = slices.Clone(held.waiting)
		out = append(out, copied)
	}
	return out
}

// change alters one that is held.
func (r *removals) change(of replica.Removal, alter func(*removal)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if held := r.find(of.ClusterID, of.PublicKey); held != nil {
		alter(held)
	}
}

// depart adds clusters that this one leaves.
func (r *removals) depart(ids []string) (all []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.departed == nil {
		r.departed = map[string]struct{}{}
	}
	for _, id := range ids {
		r.departed[id] = struct{}{}
	}
	return slices.Sorted(maps.Keys(r.departed))
}

// gone says that a cluster is not in the group any more: it left, was removed, or this cluster left the group that it
// is in; and was not admitted again since.
func (s *session) gone(id string) bool {
	if id == s.clusterID || !s.removals.mentions(id) {
		return false
	}
	_, pinned := s.trust.Key(id)
	return !pinned
}

// removalRecord is a removal as it is kept.
type removalRecord struct {
	Message []byte   `json:"message"` // as it was signed
	Strange bool     `json:"strange,omitempty"`
	Hearsay bool     `json:"hearsay,omitempty"`
	Voucher string   `json:"voucher,omitempty"`
	Ended   bool     `json:"ended,omitempty"`
	Ordered bool     `json:"ordered,omitempty"`
	Waiting []string `json:"waiting,omitempty"`
	All     bool     `json:"all,omitempty"` // too many wait to be listed
}

func removalsName(i int) string {
	if i == 0 {
		return removalsSecret
	}
	return fmt.Sprintf("%s-%d", removalsSecret, i+1)
}

// removals reads what was recorded. What cannot be read is an error: to go on without it would trust a removed key.
func (p *private) removals(ctx context.Context, log *slog.Logger) ([]removal, error) {
	var out []removal
	for i := 0; ; i++ {
		name := removalsName(i)
		secret, err := p.client.Secrets(p.namespace).Read(ctx, name)
		if apierrors.IsNotFound(err) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read Secret %s/%s: %w", p.namespace, name, err)
		}
		for _, key := range slices.Sorted(maps.Keys(secret.Data)) {
			var record removalRecord
			err := json.Unmarshal(secret.Data[key], &record)
			var held replica.Removal
			if err == nil {
				held, err = replica.ParseRemoval(record.Message)
			}
			if err != nil {
				log.Error("a recorded removal cannot be read and is ignored; members tell of it again", "secret", p.namespace+"/"+name, "key", key, "error", err)
				continue
			}
			held.Voucher = record.Voucher
			out = append(out, removal{
				Removal: held, strange: record.Strange, ended: record.Ended, hearsay: record.Hearsay,
				ordered: record.Ordered, waiting: record.Waiting, unasked: record.All,
			})
		}
	}
}

// recordRemovals makes the Secrets hold these removals. Where they are does not matter.
func (p *private) recordRemovals(ctx context.Context, all []removal) error {
	for i, chunk := range slices.Collect(slices.Chunk(all, removalsEach)) {
		data := make(map[string][]byte, len(chunk))
		for _, held := range chunk {
			if len(held.waiting) > removalsWaiting {
				held.waiting, held.unasked = nil, true // of this copy
			}
			record, err := json.Marshal(removalRecord{
				Message: held.Message(), Strange: held.strange, Ended: held.ended, Hearsay: held.hearsay, Voucher: held.Voucher,
				Ordered: held.ordered, Waiting: held.waiting, All: held.unasked,
			})
			if err != nil {
				return fmt.Errorf("encode removal: %w", err)
			}
			sum := sha256.Sum256(held.PublicKey)
			data[held.ClusterID+"."+hex.EncodeToString(sum[:8])] = record
		}
		err := p.record(ctx, &kube.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: removalsName(i), Namespace: p.namespace, Labels: managedLabels()},
			Data:       data,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// recordRemovals keeps what is held now.
func (s *session) recordRemovals(ctx context.Context) error {
	s.removals.recording.Lock()
	defer s.removals.recording.Unlock()
	return s.private.recordRemovals(ctx, s.removals.all())
}

// recall takes in what an earlier start recorded, before any key is trusted.
func (s *session) recall(ctx context.Context) error {
	list, err := s.private.removals(ctx, s.log)
	if err != nil {
		return err
	}
	departed, err := s.private.departed(ctx)
	if err != nil {
		return err
	}
	for _, r := range list {
		s.removals.take(r)
	}
	s.removals.depart(departed)
	return nil
}

// givenUp says that the key which this cluster's Cluster object records is no longer the cluster's: it left under it,
// or a person has asked for another one.
func (s *session) givenUp(own *v1alpha1.Cluster) bool {
	key := recordedKey(own)
	if key == nil {
		return false
	}
	_, removed := s.removals.of(s.clusterID, key)
	return removed || own.Annotations[v1alpha1.AnnotationLeave] == v1alpha1.RequestKey(key)
}

// departed reads which clusters this one has left.
func (p *private) departed(ctx context.Context) ([]string, error) {
	secret, err := p.client.Secrets(p.namespace).Read(ctx, identitySecret)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read Secret %s/%s: %w", p.namespace, identitySecret, err)
	}
	var ids []string
	if data := secret.Data[departedKey]; len(data) > 0 {
		if err := json.Unmarshal(data, &ids); err != nil {
			return nil, fmt.Errorf("read Secret %s/%s, key %s: %w", p.namespace, identitySecret, departedKey, err)
		}
	}
	return ids, nil
}

func (p *private) recordDeparted(ctx context.Context, ids []string) error {
	data, err := json.Marshal(ids)
	if err != nil {
		return fmt.Errorf("encode the clusters that were left: %w", err)
	}
	return p.changeIdentity(ctx, func(secret *kube.Secret) bool {
		if bytes.Equal(secret.Data[departedKey], data) {
			return false
		}
		secret.Data[departedKey] = data
		return true
	})
}

// forgetPeer deletes the credential for a peer.
func (p *private) forgetPeer(ctx context.Context, clusterID string) error {
	err := p.client.Secrets(p.namespace).Delete(ctx, peerSecret+clusterID, nil)
	if err == nil || apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("delete Secret %s/%s: %w", p.namespace, peerSecret+clusterID, err)
}
