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

// problemRoom is the part whose problem it is that an object finds no room in the replica; the object follows.
const problemRoom = "room for "

// errUnproven is returned while it is not known whether an object was deleted by itself.
var errUnproven = errors.New("not known whether it was deleted")

// Gate says whether what the local API server says may be published.
type Gate interface {
	// Frozen says that nothing may.
	Frozen() bool
	// Open says that it may, and tells one such time from another.
	Open() (period int, open bool)
	// Confirm looks whether a person has opened the gate.
	Confirm(ctx context.Context) error
	// ProveDeleted returns nil when an object of this kind that is not there was deleted by itself.
	ProveDeleted(ctx context.Context, kind replica.Kind) error
}

// Rules are what the sync rules in force are told.
type Rules interface {
	// Settle tells the engine that a rule is gone, or what it is, once that is certain. own says who asks: the publisher,
	// who knows of this cluster's own rules, or the importer, who knows of the others.
	Settle(name string, own bool)
	// Awaits says that a rule of this cluster's own is gone, and that the engine was not told yet.
	Awaits(name string) bool
	// NameClash says that the cluster origin publishes a rule of the same name as one of this cluster's own; "" for none.
	NameClash(name, origin string)
}

// Epochs opens epochs of what this cluster publishes.
type Epochs struct {
	// Open records and returns an epoch above floor and above every one that was recorded.
	Open func(ctx context.Context, floor uint64) (uint64, error)
	// MayReopen says that a person has confirmed that an epoch which members know of and this cluster does not is to be
	// followed by another one; Reopened that it was.
	MayReopen func() bool
	Reopened  func()
	// Freeze stops publishing until a person has.
	Freeze func()
}

// PublisherOptions are what a publisher needs. All fields are required.
type PublisherOptions struct {
	ClusterID string
	// Rules and features are published; without it the cluster only receives.
	CoreResourceSource bool
	// Tombstones is how many deleted objects are remembered at least, before a new epoch forgets them.
	Tombstones int
	Own        *Own
	Registry   *informers.Registry
	Replica    *replica.Replica
	Gate       Gate
	Epochs     Epochs
	Rules      Rules
	// Heed hears what a person asks for on the own Cluster object, as to leave the group.
	Heed      func(*v1alpha1.Cluster)
	Broadcast func(messages ...[]byte)
	Problems  *health.Problems
	Log       *slog.Logger
}

// Publisher makes the replica say of what this cluster owns what the local API server says.
type Publisher struct {
	o PublisherOptions

	keys     *loop.Loop[replica.Key]
	announce *loop.Task // of everything that this cluster owns
	epoch    *loop.Task // a higher one, where a member knows of one that this agent does not
	collect  *loop.Task // of tombstones

	reopening  sync.Mutex // from seeing an unknown epoch of this cluster to having opened one after it
	publishing sync.Mutex // from reading an object to handing it to the replica
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

// Run announces all that this cluster owns, and what changes, until ctx ends.
func (p *Publisher) Run(ctx context.Context) error {
	p.announce.Again()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return p.keys.Run(ctx, 1) })
	for _, task := range []*loop.Task{p.announce, p.epoch, p.collect} {
		group.Go(func() error { return task.Run(ctx) })
	}
	return group.Wait()
}

// Look publishes what the local API server has under a key, or that it has nothing.
func (p *Publisher) Look(key replica.Key) { p.keys.Add(key) }

// LookAtOwn looks at this cluster's own Cluster object.
func (p *Publisher) LookAtOwn() { p.Look(payload.ClusterKey(p.o.ClusterID)) }

// EpochSeen says that a member has shown an epoch of this cluster that this agent does not know of.
func (p *Publisher) EpochSeen() { p.epoch.Again() }

// LookAtAll puts up everything that this cluster has and had, after a freeze.
func (p *Publisher) LookAtAll() {
	for key := range p.all() {
		if key.Kind != replica.KindCluster {
			p.Look(key)
		}
	}
	p.announce.Again() // in a new epoch, if members know of a later one
}

// all is what this cluster has, and what it published and has not any more.
func (p *Publisher) all() iter.Seq[replica.Key] {
	return func(yield func(replica.Key) bool) {
		keys := []replica.Key{payload.ClusterKey(p.o.ClusterID)}
		rules, _ := p.o.Registry.Rules.List(labels.Everything()) // this selector is valid, and a lister has no other error
		for _, r := range rules {
			keys = append(keys, payload.RuleKey(r.Name))
		}
		features, _ := p.o.Registry.Features.List(labels.Everything())
		for _, f := range features {
			keys = append(keys, payload.FeatureKey(f.Name))
		}
		for _, kind := range [...]replica.Kind{replica.KindRule, replica.KindFeature} { // what was deleted while the agent was away
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

// announceAll hands everything that this cluster owns to the replica, with what it does not own any more, and then marks
// the epoch complete: from there on, what an earlier epoch held and this one does not is known to be gone.
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
		return err // not complete: nobody may take what is missing for deleted
	}
	if now, _ := p.o.Gate.Open(); !open || now != began {
		return nil // nor what was not put; once a freeze is confirmed, everything is put up again
	}
	p.o.Broadcast(p.o.Replica.Complete()...)
	return nil
}

// publish makes the replica say of a key what the local API server says.
func (p *Publisher) publish(ctx context.Context, key replica.Key) error {
	if key.Kind == replica.KindCluster {
		own := p.o.Own.Cluster()
		if own == nil {
			_, err := p.o.Own.Ensure(ctx)
			return err
		}
		p.o.Heed(own)
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

// publishLocal reads the watched object and hands it to the replica. An object with an owner is a copy and
// never published.
func (p *Publisher) publishLocal(ctx context.Context, key replica.Key) error {
	p.publishing.Lock() // or what was read first might be published last
	defer p.publishing.Unlock()
	status, data, err := p.local(key)
	if status == replica.Deleted && p.had(key) {
		if err := p.o.Gate.ProveDeleted(ctx, key.Kind); err != nil {
			return fmt.Errorf("%w: %w", errUnproven, err)
		}
	}
	if p.o.Gate.Frozen() {
		return nil // until it is confirmed; then everything is put up again
	}
	if err != nil {
		return fmt.Errorf("encode %s %s: %w", payload.KindName(key.Kind), key.Name, err)
	}
	messages, err := p.o.Replica.Publish(key, status, data)
	if errors.Is(err, replica.ErrTooLarge) {
		p.o.Log.Error("an object is too large to be published and is kept to this cluster", "kind", payload.KindName(key.Kind), "name", key.Name, "error", err)
		messages, err = p.o.Replica.Publish(key, replica.Withdrawn, nil)
	}
	if err != nil {
		err = fmt.Errorf("publish %s %s: %w", payload.KindName(key.Kind), key.Name, err)
	}
	room := problemRoom + payload.KindName(key.Kind) + " " + key.Name
	if errors.Is(err, replica.ErrFull) {
		return p.o.Problems.Set(room, fmt.Errorf("%w: delete rules or features that are not needed", err))
	}
	_ = p.o.Problems.Set(room, nil)
	if err != nil {
		return err
	}
	p.o.Broadcast(messages...)
	if status == replica.Deleted && p.o.Replica.TooManyTombstones(p.o.Tombstones) {
		p.collect.Again()
	}
	return nil
}

// had says whether this cluster publishes an object of that name, or goes by a rule of that name of its own.
func (p *Publisher) had(key replica.Key) bool {
	if e, ok := p.o.Replica.Lookup(key, p.o.ClusterID); ok && e.Status != replica.Deleted {
		return true
	}
	return key.Kind == replica.KindRule && p.o.Rules.Awaits(key.Name)
}

// local is what the local API server says of a key: Live with its payload, Withdrawn, or Deleted when there
// is no such object of this cluster's own.
func (p *Publisher) local(key replica.Key) (replica.Status, []byte, error) {
	switch key.Kind {
	case replica.KindCluster:
		c := p.o.Own.Cluster()
		if c == nil {
			return replica.Withdrawn, nil, nil // being recreated
		}
		data, err := payload.EncodeCluster(c)
		return replica.Live, data, err
	case replica.KindRule:
		r, err := p.o.Registry.Rules.Get(key.Name)
		if err != nil || syncrules.Owner(r) != "" {
			return replica.Deleted, nil, nil //nolint:nilerr // the one error of a lister is that it has none
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
	}
	return replica.Deleted, nil, nil
}

// withheld tells the objects that their owner keeps to the cluster: by annotation each, or all of them.
func (p *Publisher) withheld(o metav1.Object) bool {
	return !p.o.CoreResourceSource || payload.Has(o, v1alpha1.AnnotationSyncDisabled)
}
