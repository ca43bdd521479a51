// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/roster-mesh/roster/agent/health"
	"github.com/roster-mesh/roster/agent/informers"
	"github.com/roster-mesh/roster/agent/loop"
	"github.com/roster-mesh/roster/agent/payload"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/replica"
	"github.com/roster-mesh/roster/syncrules"
)

// problemFull is the prefix of the name of a problem: the replica has no room for an object, whose name follows.
const problemFull = "room for "

// errUnproven is returned while it is not known whether an object that is missing was deleted by itself.
var errUnproven = errors.New("not known whether it was deleted")

// Gate decides whether the state of the local API server may be published (package restore).
type Gate interface {
	// Frozen reports whether nothing may be published.
	Frozen() bool
	// Open is the opposite of Frozen. period is another number after each freeze.
	Open() (period int, open bool)
	// Confirm opens the gate if a person has confirmed the restore.
	Confirm(ctx context.Context) error
	// ProveDeleted returns nil if a missing object of this kind was deleted by itself, and not with its CRD.
	ProveDeleted(ctx context.Context, kind replica.Kind) error
}

// Rules are the sync rules in force (package rules).
type Rules interface {
	// Settle passes a rule, or its deletion, to the engine once that is certain. own says that the publisher calls it,
	// for this cluster's own rules; else the importer does, for copies.
	Settle(name string, own bool)
	// IsUnsettled reports whether a rule of this cluster's own is gone, and the engine still has it.
	IsUnsettled(name string) bool
	// NameClash records that the cluster origin publishes a rule with the name of one of this cluster's own; "" for
	// none.
	NameClash(name, origin string)
}

// Admissions are what this cluster says of those that it admits (package admissions).
type Admissions interface {
	// Subjects lists their clusterIDs.
	Subjects() []string
	// Payload is what is published of one of them; nil for a cluster that is not admitted.
	Payload(clusterID string) ([]byte, error)
}

// Epochs opens new epochs for what this cluster publishes.
type Epochs struct {
	// Open records and returns an epoch above floor and above every recorded one.
	Open func(ctx context.Context, floor uint64) (uint64, error)
	// MayReopen reports whether a person has confirmed that this cluster may open an epoch above one that only members
	// know. Reopened says that it did.
	MayReopen func() bool
	Reopened  func()
	// Freeze stops publishing until a person has confirmed.
	Freeze func()
}

// PublisherOptions are the options of NewPublisher. All fields are required.
type PublisherOptions struct {
	ClusterID string
	// CoreResourceSource publishes rules and features. Without it the cluster only receives.
	CoreResourceSource bool
	// Tombstones is how many deleted objects are remembered at least before a new epoch forgets them.
	Tombstones int
	Own        *Own
	Registry   *informers.Registry
	Replica    *replica.Replica
	Gate       Gate
	Epochs     Epochs
	Rules      Rules
	Admissions Admissions
	// CheckRequests handles the annotations on the own Cluster object that ask to leave the group, or to admit clusters.
	CheckRequests func(*v1alpha1.Cluster)
	Broadcast     func(messages ...[]byte)
	Problems      *health.Problems
	Log           *slog.Logger
}

// Publisher writes what this cluster owns from the local API server to the replica.
type Publisher struct {
	o PublisherOptions

	keys     *loop.Loop[replica.Key]
	announce *loop.Task // publishes everything that this cluster owns
	epoch    *loop.Task // opens a higher epoch after EpochSeen
	collect  *loop.Task // collects tombstones

	reopening  sync.Mutex // held while a new epoch is opened
	publishing sync.Mutex // held from reading an object until the replica has it
}

// NewPublisher returns a publisher that does nothing before Run.
func NewPublisher(o PublisherOptions) *Publisher {
	p := &Publisher{o: o}
	p.keys = loop.New("publish", o.Log, p.publish)
	p.announce = loop.NewTask("announcement", o.Log, p.announceAll)
	p.epoch = loop.NewTask("epoch", o.Log, p.reopen)
	p.collect = loop.NewTask("collection of tombstones", o.Log, p.collectTombstones)
	return p
}

// Run publishes everything that this cluster owns, and then each change, until ctx ends.
func (p *Publisher) Run(ctx context.Context) error {
	p.announce.Trigger()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return p.keys.Run(ctx, 1) })
	for _, task := range []*loop.Task{p.announce, p.epoch, p.collect} {
		group.Go(func() error { return task.Run(ctx) })
	}
	return group.Wait()
}

// Enqueue publishes the local object under a key, or its deletion.
func (p *Publisher) Enqueue(key replica.Key) { p.keys.Add(key) }

// EnqueueOwn publishes this cluster's own Cluster object.
func (p *Publisher) EnqueueOwn() { p.Enqueue(payload.ClusterKey(p.o.ClusterID)) }

// EnqueueAdmission publishes what this cluster says of another one, after its pin or the end of that.
func (p *Publisher) EnqueueAdmission(clusterID string) { p.Enqueue(payload.AdmissionKey(clusterID)) }

// EpochSeen says that a member has an epoch of this cluster that this agent does not know.
func (p *Publisher) EpochSeen() { p.epoch.Trigger() }

// EnqueueAll publishes everything that this cluster has or had, after a freeze.
func (p *Publisher) EnqueueAll() {
	for key := range p.all() {
		if key.Kind != replica.KindCluster {
			p.Enqueue(key)
		}
	}
	p.announce.Trigger() // opens a new epoch if members know a later one
}

// all are the keys of what this cluster has, and of what it published earlier.
func (p *Publisher) all() iter.Seq[replica.Key] {
	return func(yield func(replica.Key) bool) {
		keys := []replica.Key{payload.ClusterKey(p.o.ClusterID)}
		for _, id := range p.o.Admissions.Subjects() {
			keys = append(keys, payload.AdmissionKey(id))
		}
		rules, _ := p.o.Registry.Rules.List(labels.Everything()) // this selector is valid, and a lister has no other error
		for _, r := range rules {
			keys = append(keys, payload.RuleKey(r.Name))
		}
		features, _ := p.o.Registry.Features.List(labels.Everything())
		for _, f := range features {
			keys = append(keys, payload.FeatureKey(f.Name))
		}
		for _, kind := range [...]replica.Kind{replica.KindRule, replica.KindFeature, replica.KindAdmission} { // deleted while the agent was stopped
			for _, e := range p.o.Replica.EntriesOf(p.o.ClusterID, kind) {
				keys = append(keys, e.Key)
			}
		}
		seen := map[replica.Key]bool{}
		for _, key := range keys {
			if !seen[key] && !yield(key) {
				return
			}
			seen[key] = true
		}
	}
}

// announceAll publishes everything that this cluster owns, and the deletion of everything else that it published. Then
// it marks the epoch complete: from then on, what an earlier epoch had and this one does not is known to be deleted.
func (p *Publisher) announceAll(ctx context.Context) error {
	if err := p.reopen(ctx); err != nil {
		return err
	}
	began, open := p.o.Gate.Open()
	var errs []error
	for key := range p.all() {
		errs = append(errs, p.publishLocal(ctx, key))
	}
	if err := errors.Join(errs...); err != nil {
		return err // not complete: what is missing is not deleted
	}
	if now, _ := p.o.Gate.Open(); !open || now != began {
		return nil // not complete: some objects were skipped; after the confirmation everything is published again
	}
	p.o.Broadcast(p.o.Replica.Complete()...)
	return nil
}

// publish makes the replica match the local API server under one key.
func (p *Publisher) publish(ctx context.Context, key replica.Key) error {
	if key.Kind == replica.KindCluster {
		own := p.o.Own.Cluster()
		if own == nil {
			_, err := p.o.Own.Ensure(ctx)
			return err
		}
		p.o.CheckRequests(own)
		if !p.o.Own.complete(own) {
			if _, err := p.o.Own.Ensure(ctx); err != nil {
				return err
			}
		}
		if err := p.o.Gate.Confirm(ctx); err != nil {
			return err
		}
	}
	err := p.publishLocal(ctx, key)
	if key.Kind == replica.KindRule && !errors.Is(err, errUnproven) {
		p.o.Rules.Settle(key.Name, true)
	}
	return err
}

// publishLocal reads an object from the listers and hands it to the replica. An object with an owner is a copy, and is
// never published.
func (p *Publisher) publishLocal(ctx context.Context, key replica.Key) error {
	p.publishing.Lock() // keeps two states of an object in order
	defer p.publishing.Unlock()
	status, data, err := p.local(key)
	if status == replica.Deleted && p.hadPublished(key) {
		if err := p.o.Gate.ProveDeleted(ctx, key.Kind); err != nil {
			return fmt.Errorf("%w: %w", errUnproven, err)
		}
	}
	if p.o.Gate.Frozen() {
		return nil // after the confirmation everything is published again
	}
	if err != nil {
		return fmt.Errorf("encode %s %s: %w", payload.KindName(key.Kind), key.Name, err)
	}
	messages, err := p.o.Replica.Publish(key, status, data)
	if errors.Is(err, replica.ErrTooLarge) {
		p.o.Log.Error("an object is too large and is not published", "kind", payload.KindName(key.Kind), "name", key.Name, "error", err)
		messages, err = p.o.Replica.Publish(key, replica.Withdrawn, nil)
	}
	if err != nil {
		err = fmt.Errorf("publish %s %s: %w", payload.KindName(key.Kind), key.Name, err)
	}
	room := problemFull + payload.KindName(key.Kind) + " " + key.Name
	if errors.Is(err, replica.ErrFull) {
		return p.o.Problems.Set(room, fmt.Errorf("%w: delete rules or features that are not needed", err))
	}
	_ = p.o.Problems.Set(room, nil)
	if err != nil {
		return err
	}
	p.o.Broadcast(messages...)
	if status == replica.Deleted && p.o.Replica.TooManyTombstones(p.o.Tombstones) {
		p.collect.Trigger()
	}
	return nil
}

// hadPublished reports whether this cluster publishes an object of that name, or has an own rule of that name in force.
func (p *Publisher) hadPublished(key replica.Key) bool {
	if e, ok := p.o.Replica.Lookup(key, p.o.ClusterID); ok && e.Status != replica.Deleted {
		return true
	}
	return key.Kind == replica.KindRule && p.o.Rules.IsUnsettled(key.Name)
}

// local is the state of a key in the local API server: Live with its payload, Withdrawn, or Deleted if this cluster
// owns no such object.
func (p *Publisher) local(key replica.Key) (replica.Status, []byte, error) {
	switch key.Kind {
	case replica.KindCluster:
		c := p.o.Own.Cluster()
		if c == nil {
			return replica.Withdrawn, nil, nil // it is about to be recreated
		}
		data, err := payload.EncodeCluster(c)
		return replica.Live, data, err
	case replica.KindRule:
		r, err := p.o.Registry.Rules.Get(key.Name)
		if err != nil || syncrules.Owner(r) != "" {
			return replica.Deleted, nil, nil //nolint:nilerr // a lister has no other error than NotFound
		}
		if p.withheld(r) {
			return replica.Withdrawn, nil, nil
		}
		data, err := payload.EncodeRule(r)
		return replica.Live, data, err
	case replica.KindFeature:
		f, err := p.o.Registry.Features.Get(key.Name)
		if err != nil || syncrules.Owner(f) != "" {
			return replica.Deleted, nil, nil //nolint:nilerr // as above
		}
		if p.withheld(f) {
			return replica.Withdrawn, nil, nil
		}
		data, err := payload.EncodeFeature(f)
		return replica.Live, data, err
	case replica.KindAdmission:
		if data, err := p.o.Admissions.Payload(key.Name); data != nil || err != nil {
			return replica.Live, data, err
		}
	}
	return replica.Deleted, nil, nil
}

// withheld reports whether an object is not published: by an annotation on it, or because this cluster publishes none. A
// rule with fields that this agent does not know would be another rule without them.
func (p *Publisher) withheld(o metav1.Object) bool {
	return !p.o.CoreResourceSource || payload.Has(o, v1alpha1.AnnotationSyncDisabled) || payload.Has(o, v1alpha1.AnnotationNotUnderstood)
}
