// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"log/slog"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/roster-mesh/roster/agent/agenttest"
	"github.com/roster-mesh/roster/agent/health"
	"github.com/roster-mesh/roster/agent/informers"
	"github.com/roster-mesh/roster/agent/payload"
	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	listers "github.com/roster-mesh/roster/kube/client/listers/api/v1alpha1"
	"github.com/roster-mesh/roster/replica"
)

// door is a gate of a test.
type door struct {
	period int
	frozen bool
	proof  error
}

func (d *door) Frozen() bool                                     { return d.frozen }
func (d *door) Open() (int, bool)                                { return d.period, !d.frozen }
func (d *door) Confirm(context.Context) error                    { return nil }
func (d *door) ProveDeleted(context.Context, replica.Kind) error { return d.proof }

// settled are rules of a test: those of which the engine was told.
type settled struct{ names []string }

func (s *settled) Settle(name string, own bool) {
	if own {
		s.names = append(s.names, name)
	}
}
func (*settled) Awaits(string) bool       { return false }
func (*settled) NameClash(string, string) {}

// newPublisher is one of cluster IDA, which publishes the rules that registry has.
func newPublisher(t *testing.T, gate Gate, rules Rules) *Publisher {
	t.Helper()
	registry := informers.New(&kube.Client{}, "n", slog.New(slog.DiscardHandler))
	return NewPublisher(PublisherOptions{
		ClusterID: agenttest.IDA, CoreResourceSource: true, Registry: registry, Gate: gate, Rules: rules,
		Own:     NewOwn(OwnOptions{ClusterID: agenttest.IDA, Registry: registry}),
		Replica: agenttest.Signer(t, agenttest.IDA, agenttest.Key(agenttest.IDA)),
		Epochs:  Epochs{MayReopen: func() bool { return false }}, Broadcast: func(...[]byte) {},
		Problems: &health.Problems{}, Log: slog.New(slog.DiscardHandler),
	})
}

func (p *Publisher) status(key replica.Key) (replica.Status, bool) {
	e, ok := p.o.Replica.Lookup(key, p.o.ClusterID)
	return e.Status, ok
}

// ruleLister has something happen when it is asked.
type ruleLister struct {
	listers.ResourceSyncRuleLister
	asked func()
}

func (l ruleLister) Get(name string) (*v1alpha1.ResourceSyncRule, error) {
	l.asked()
	return l.ResourceSyncRuleLister.Get(name)
}

// The informers may take in what a restore has brought while the publisher is at work.
func TestWhatIsReadAfterAFreezeIsNotPublished(t *testing.T) {
	gate := &door{}
	p := newPublisher(t, gate, &settled{})
	key := payload.RuleKey("r")
	if _, err := p.o.Replica.Publish(key, replica.Live, []byte("{}")); err != nil {
		t.Fatal(err)
	}
	p.o.Registry.Rules = ruleLister{p.o.Registry.Rules, func() { gate.frozen = true }}
	if err := p.publishLocal(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if status, ok := p.status(key); !ok || status != replica.Live {
		t.Errorf("the rule is published as %v, %t", status, ok)
	}
}

// featureLister has something happen when it is asked for all.
type featureLister struct {
	listers.ClusterFeatureLister
	asked func()
}

func (l featureLister) List(selector labels.Selector) ([]*v1alpha1.ClusterFeature, error) {
	l.asked()
	return l.ClusterFeatureLister.List(selector)
}

// What was left out while the cluster was frozen is not known to be gone because the freeze ends just then.
func TestAllIsNotCompleteAcrossAConfirmation(t *testing.T) {
	gate := &door{frozen: true}
	p := newPublisher(t, gate, &settled{})
	p.o.Registry.Features = featureLister{p.o.Registry.Features, func() { gate.frozen, gate.period = false, 1 }}
	if err := p.announceAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p.o.Replica.Absent(payload.RuleKey("r"), agenttest.IDA) {
		t.Error("a rule that was not published counts as gone")
	}
	if err := p.announceAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !p.o.Replica.Absent(payload.RuleKey("r"), agenttest.IDA) {
		t.Error("with an open gate all is not complete")
	}
}

// A rule is published as deleted when that is proven, and the engine is told of it only then.
func TestADeletionIsPublishedOnProof(t *testing.T) {
	gate, rules := &door{}, &settled{}
	p := newPublisher(t, gate, rules)
	key, rule := payload.RuleKey("r"), &v1alpha1.ResourceSyncRule{ObjectMeta: metav1.ObjectMeta{Name: "r"}}
	if err := p.o.Registry.Put(rule); err != nil {
		t.Fatal(err)
	}
	if err := p.publish(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if err := p.o.Registry.Drop(rule); err != nil {
		t.Fatal(err)
	}
	gate.proof, rules.names = context.DeadlineExceeded, nil
	if err := p.publish(t.Context(), key); err == nil || len(rules.names) > 0 {
		t.Errorf("not proven: %v, the engine is told of %v", err, rules.names)
	}
	if status, _ := p.status(key); status != replica.Live {
		t.Errorf("not proven, it is published as %v", status)
	}
	gate.proof = nil
	if err := p.publish(t.Context(), key); err != nil || len(rules.names) != 1 {
		t.Errorf("proven: %v, the engine is told of %v", err, rules.names)
	}
	if status, ok := p.status(key); ok {
		t.Errorf("proven, it is still published as %v", status)
	}
}

// Objects that are withheld are published as withdrawn, and copies not at all.
func TestWhatIsPublished(t *testing.T) {
	p := newPublisher(t, &door{}, &settled{})
	disabled := map[string]string{v1alpha1.AnnotationSyncDisabled: ""}
	owned := map[string]string{v1alpha1.AnnotationOwnerClusterID: agenttest.IDB}
	for name, o := range map[string]metav1.ObjectMeta{"live": {}, "withheld": {Annotations: disabled}, "copy": {Annotations: owned, Labels: owned}} {
		o.Name = name
		if err := p.o.Registry.Put(&v1alpha1.ResourceSyncRule{ObjectMeta: o}, &v1alpha1.ClusterFeature{ObjectMeta: o}); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.announceAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []replica.Kind{replica.KindRule, replica.KindFeature} {
		for name, want := range map[string]replica.Status{"live": replica.Live, "withheld": replica.Withdrawn} {
			if status, ok := p.status(replica.Key{Kind: kind, Name: name}); !ok || status != want {
				t.Errorf("%s %s is published as %v, %t", payload.KindName(kind), name, status, ok)
			}
		}
		if _, ok := p.status(replica.Key{Kind: kind, Name: "copy"}); ok {
			t.Errorf("a copy of a %s is published", payload.KindName(kind))
		}
	}
}
