// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/replica"
)

// A CRD that is deleted takes its objects with it, by events like those of a person who deletes them one by one. It
// says nothing of the objects: who has lost a CRD has not asked all clusters to forget the rules. So before anything
// is published as deleted the CRD is looked at. One that is going, gone, or made anew stops the publishing, as a
// restore does, until a person confirms (restore.go).

// errUnproven is returned while it is not known whether an object was deleted by itself.
var errUnproven = errors.New("not known whether it was deleted")

// definitions are the UIDs of the CRDs that the objects of this cluster were made under, by the CRD's name; "" for one
// that is not known, or that was not there.
type definitions struct {
	mu   sync.Mutex
	uids map[string]types.UID
}

func (d *definitions) uid(name string) types.UID {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.uids[name]
}

// was says whether a CRD may be the one that was there.
func (d *definitions) was(name string, uid types.UID) bool {
	known := d.uid(name)
	return known == "" || known == uid
}

func (d *definitions) set(uids map[string]types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.uids = uids
}

// forget takes what is there now for what was there.
func (d *definitions) forget() { d.set(nil) }

// definitionOf names the CRD of what is published.
func definitionOf(kind replica.Kind) string {
	switch kind {
	case replica.KindRule:
		return "resourcesyncrules." + v1alpha1.GroupName
	case replica.KindFeature:
		return "clusterfeatures." + v1alpha1.GroupName
	case replica.KindCluster: // is made again, and not published as deleted
	}
	return ""
}

// proveDeleted returns nil for an object that the local API server does not have when it was deleted by itself, or
// when nothing depends on that. Otherwise there is a freeze, or the error says why it is not known. It is called after
// the object was seen to be gone: a CRD that stands then stood when it went.
func (s *session) proveDeleted(ctx context.Context, key replica.Key) error {
	name := definitionOf(key.Kind)
	if name == "" || s.restore.isFrozen() || !s.hadOwn(key) {
		return nil
	}
	crd, err := s.client.ReadCRD(ctx, name)
	switch {
	case errors.Is(err, kube.ErrForbidden) && s.definitions.uid(name) == "":
		return nil // it never had the right: its API server's word counts
	case err != nil:
		return fmt.Errorf("%w: read CRD %s: %w", errUnproven, name, err)
	case crd == nil || crd.DeletionTimestamp != nil || !s.definitions.was(name, crd.UID):
		s.log.Error("a CRD was deleted, and with it all objects of its kind", "crd", name)
		s.freeze()
	}
	return nil
}

// proveListed begins a freeze when a CRD does not stand, or is another one, after its objects were listed: one that stands
// now stood then. It returns when that is known.
func (s *session) proveListed(ctx context.Context) {
	for wait := retryFirst; ctx.Err() == nil; wait = min(2*wait, retryMost) {
		now, err := s.readDefinitions(ctx)
		for name, uid := range now {
			if !s.definitions.was(name, uid) {
				s.log.Error("a CRD was deleted, and with it all objects of its kind", "crd", name)
				s.freeze()
			}
		}
		if err == nil {
			return
		}
		s.log.Warn("waiting for the local API server to tell of its CRDs", "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// hadOwn says whether this cluster publishes an object of that name, or goes by a rule of that name of its own.
func (s *session) hadOwn(key replica.Key) bool {
	if e, ok := s.replica.Lookup(key, s.clusterID); ok && e.Status != replica.Deleted {
		return true
	}
	return key.Kind == replica.KindRule && s.restore.awaits(key.Name)
}

// awaits says whether a rule of this cluster's own is gone, and the engine was not told.
func (r *restore) awaits(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	owner, unsettled := r.unsettled[name]
	return unsettled && owner == ""
}

// resumeFreeze goes on waiting for a confirmation, if the agent did when it ended, and begins to where the CRDs are other
// ones than were recorded: those have nothing of what was there.
func (s *session) resumeFreeze(ctx context.Context) (err error) {
	if s.restore.frozen, err = s.private.freeze(ctx); err != nil || s.restore.frozen != nil {
		return err
	}
	recorded, err := s.private.definitions(ctx)
	if err != nil {
		return err
	}
	s.definitions.set(recorded)
	now, err := s.readDefinitions(ctx)
	if err != nil {
		return err
	}
	for name, uid := range now {
		if !s.definitions.was(name, uid) {
			s.log.Error("a CRD was deleted and made again while the agent was away", "crd", name)
			s.restore.frozen = &freeze{}
			return s.private.recordFreeze(ctx, s.restore.frozen)
		}
	}
	return s.learnDefinitions(ctx, now)
}

// recordFreeze keeps whether a restore waits for its confirmation. Where none does, the CRDs are those to go by.
func (s *session) recordFreeze(ctx context.Context) error {
	state := s.restore.state()
	if err := s.private.recordFreeze(ctx, state); err != nil || state != nil {
		return err
	}
	now, err := s.readDefinitions(ctx)
	if err != nil {
		return err
	}
	return s.learnDefinitions(ctx, now)
}

func (s *session) learnDefinitions(ctx context.Context, now map[string]types.UID) error {
	if err := s.private.recordDefinitions(ctx, now); err != nil {
		return err
	}
	s.definitions.set(now)
	return nil
}

// readDefinitions are the CRDs of what is published: "" for one that does not stand, and what was known of one that may
// not be read.
func (s *session) readDefinitions(ctx context.Context) (map[string]types.UID, error) {
	uids := map[string]types.UID{}
	for _, kind := range [...]replica.Kind{replica.KindRule, replica.KindFeature} {
		name := definitionOf(kind)
		crd, err := s.client.ReadCRD(ctx, name)
		switch {
		case errors.Is(err, kube.ErrForbidden):
			uids[name] = s.definitions.uid(name)
		case err != nil:
			return nil, fmt.Errorf("read CRD %s: %w", name, err)
		case crd == nil || crd.DeletionTimestamp != nil:
			uids[name] = ""
		default:
			uids[name] = crd.UID
		}
	}
	return uids, nil
}

// definitionsKey is the key of the Secret with the cluster's key that keeps the UIDs of the CRDs.
const definitionsKey = "definitions"

// definitions reads what recordDefinitions kept. A record that cannot be read is none.
func (p *private) definitions(ctx context.Context) (map[string]types.UID, error) {
	secret, err := p.client.Secrets(p.namespace).Read(ctx, identitySecret)
	if err != nil {
		return nil, fmt.Errorf("read Secret %s/%s: %w", p.namespace, identitySecret, err)
	}
	var uids map[string]types.UID
	if err := json.Unmarshal(secret.Data[definitionsKey], &uids); err != nil {
		return nil, nil //nolint:nilerr,nilnil // As of an agent that did not keep it.
	}
	return uids, nil
}

// recordDefinitions writes only when they have changed.
func (p *private) recordDefinitions(ctx context.Context, uids map[string]types.UID) error {
	data, err := json.Marshal(uids)
	if err != nil {
		return fmt.Errorf("encode the record of CRDs: %w", err)
	}
	return p.changeIdentity(ctx, func(secret *kube.Secret) bool {
		var was map[string]types.UID
		if err := json.Unmarshal(secret.Data[definitionsKey], &was); err == nil && maps.Equal(was, uids) {
			return false
		}
		if secret.Data == nil {
			secret.Data = map[string][]byte{}
		}
		secret.Data[definitionsKey] = data
		return true
	})
}
