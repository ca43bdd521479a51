// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"testing"
	"time"

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

// fakeGate is a Gate of a test.
type fakeGate struct {
	period int
	frozen bool
	proof  error
}

func (g *fakeGate) Frozen() bool                                     { return g.frozen }
func (g *fakeGate) Open() (int, bool)                                { return g.period, !g.frozen }
func (g *fakeGate) Confirm(context.Context) error                    { return nil }
func (g *fakeGate) ProveDeleted(context.Context, replica.Kind) error { return g.proof }

// fakeRules are Rules of a test. names are the rules that were settled.
type fakeRules struct{ names []string }

func (s *fakeRules) Settle(name string, own bool) {
	if own {
		s.names = append(s.names, name)
	}
}
func (*fakeRules) IsUnsettled(string) bool  { return false }
func (*fakeRules) NameClash(string, string) {}

// newPublisher is the publisher of cluster IDA. Its registry is empty.
func newPublisher(t *testing.T, gate Gate, rules Rules) *Publisher {
	t.Helper()
	registry := informers.New(&kube.Client{}, "n", slog.New(slog.DiscardHandler))
	return NewPublisher(PublisherOptions{
		ClusterID: agenttest.IDA, CoreResourceSource: true, Registry: registry, Gate: gate, Admissions: nobody{}, Rules: rules,
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

// ruleLister calls a function when a rule is read.
type ruleLister struct {
	listers.ResourceSyncRuleLister
	asked func()
}

func (l ruleLister) Get(name string) (*v1alpha1.ResourceSyncRule, error) {
	l.asked()
	return l.ResourceSyncRuleLister.Get(name)
}

// A freeze may begin while the publisher reads a rule: the rule is not published then.
func TestRuleReadDuringFreezeIsNotPublished(t *testing.T) {
	gate := &fakeGate{}
	p := newPublisher(t, gate, &fakeRules{})
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

// A freeze may begin while an epoch is recorded: nothing is announced in it then.
func TestNoEpochIsOpenedDuringFreeze(t *testing.T) {
	for name, open := range map[string]func(*Publisher, context.Context) error{
		"tombstones": (*Publisher).collectTombstones, "seen": (*Publisher).reopen,
	} {
		gate := &fakeGate{}
		p := newPublisher(t, gate, &fakeRules{})
		key, later := payload.RuleKey("r"), agenttest.Signer(t, agenttest.IDA, agenttest.Key(agenttest.IDA))
		publish := func(r *replica.Replica, status replica.Status, content string) [][]byte {
			t.Helper()
			messages, err := r.Publish(key, status, []byte(content))
			if err != nil {
				t.Fatal(err)
			}
			return messages
		}
		if name == "tombstones" {
			publish(p.o.Replica, replica.Live, "{}")
			publish(p.o.Replica, replica.Deleted, "")
			p.o.Replica.Complete()
		} else {
			if _, err := later.Reopen(7); err != nil {
				t.Fatal(err)
			}
			for _, message := range publish(later, replica.Live, "{}") {
				if _, _, err := p.o.Replica.Merge(message, ""); err != nil {
					t.Fatal(err)
				}
			}
		}
		asked, before := false, p.o.Replica.LastEpoch()
		p.o.Epochs.MayReopen = func() bool { return true }
		p.o.Epochs.Open = func(context.Context, uint64) (uint64, error) { gate.frozen, asked = true, true; return 9, nil }
		if err := open(p, t.Context()); err != nil || !asked || p.o.Replica.LastEpoch() != before {
			t.Errorf("%s: recorded %t, in epoch %d after %d, %v", name, asked, p.o.Replica.LastEpoch(), before, err)
		}
	}
}

// featureLister calls a function when all features are listed.
type featureLister struct {
	listers.ClusterFeatureLister
	asked func()
}

func (l featureLister) List(selector labels.Selector) ([]*v1alpha1.ClusterFeature, error) {
	l.asked()
	return l.ClusterFeatureLister.List(selector)
}

// What was skipped while frozen does not count as deleted when the freeze ends during the announcement.
func TestEpochIsNotCompleteAfterFreezeInBetween(t *testing.T) {
	gate := &fakeGate{frozen: true}
	p := newPublisher(t, gate, &fakeRules{})
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

// A deletion is published, and passed to the engine, only when it is proven.
func TestDeletionNeedsProof(t *testing.T) {
	gate, rules := &fakeGate{}, &fakeRules{}
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
		t.Errorf("not proven: %v, settled: %v", err, rules.names)
	}
	if status, _ := p.status(key); status != replica.Live {
		t.Errorf("not proven, it is published as %v", status)
	}
	gate.proof = nil
	if err := p.publish(t.Context(), key); err != nil || len(rules.names) != 1 {
		t.Errorf("proven: %v, settled: %v", err, rules.names)
	}
	if status, ok := p.status(key); ok {
		t.Errorf("proven, it is still published as %v", status)
	}
}

// Withheld objects are published as withdrawn, and copies are not published.
func TestWithheldAndCopies(t *testing.T) {
	p := newPublisher(t, &fakeGate{}, &fakeRules{})
	disabled := map[string]string{v1alpha1.AnnotationSyncDisabled: ""}
	owned := map[string]string{v1alpha1.AnnotationOwnerClusterID: agenttest.IDB}
	for name, o := range map[string]metav1.ObjectMeta{"live": {}, "withheld": {Annotations: disabled}, "copy": {Annotations: owned, Labels: owned}} {
		o.Name = name
		if err := p.o.Registry.Put(&v1alpha1.ResourceSyncRule{ObjectMeta: o}, &v1alpha1.ClusterFeature{ObjectMeta: o}); err != nil {
			t.Fatal(err)
		}
	}
	unknown := metav1.ObjectMeta{Name: "unknown", Annotations: map[string]string{v1alpha1.AnnotationNotUnderstood: "spec.future"}}
	if err := p.o.Registry.Put(&v1alpha1.ResourceSyncRule{ObjectMeta: unknown}); err != nil {
		t.Fatal(err)
	}
	if err := p.announceAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if status, ok := p.status(payload.RuleKey(unknown.Name)); !ok || status != replica.Withdrawn {
		t.Errorf("a rule that is not understood is published as %v, %t", status, ok)
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

// nobody is admitted here.
type nobody struct{}

func (nobody) Subjects() []string             { return nil }
func (nobody) Payload(string) ([]byte, error) { return nil, nil }

// admitted are clusters with what is said of them.
type admitted map[string]string

func (a admitted) Subjects() []string { return slices.Sorted(maps.Keys(a)) }

func (a admitted) Payload(id string) ([]byte, error) {
	if data, ok := a[id]; ok {
		return []byte(data), nil
	}
	return nil, nil
}

// TestAdmissionsArePublished: of everybody who is admitted, before the epoch is marked complete, and taken back when that ends, also
// while the agent was stopped.
func TestAdmissionsArePublished(t *testing.T) {
	p := newPublisher(t, &fakeGate{}, &fakeRules{})
	published := func(want ...string) {
		t.Helper()
		for _, id := range []string{"b", "c", "d"} {
			if _, ok := p.status(payload.AdmissionKey(id)); ok != slices.Contains(want, id) {
				t.Errorf("%s is published: %t", id, ok)
			}
		}
	}
	p.o.Admissions = admitted{"b": "key of b", "c": "key of c"}
	if err := p.announceAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	published("b", "c")
	if !p.o.Replica.Absent(payload.AdmissionKey("d"), agenttest.IDA) {
		t.Error("the epoch is not complete")
	}
	p.o.Admissions = admitted{"c": "key of c"}
	if err := p.announceAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	published("c")
	p.o.Admissions = admitted{"d": "key of d"}
	p.EnqueueAdmission("c")
	p.EnqueueAdmission("d")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go func() { _ = p.keys.Run(ctx, 1) }()
	for ctx.Err() == nil {
		_, c := p.status(payload.AdmissionKey("c"))
		if _, d := p.status(payload.AdmissionKey("d")); d && !c {
			break
		}
		time.Sleep(time.Millisecond)
	}
	published("d")
}
