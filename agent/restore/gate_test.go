// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roster-mesh/roster/agent/agenttest"
	"github.com/roster-mesh/roster/agent/health"
	"github.com/roster-mesh/roster/agent/store"
	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/replica"
)

// fixture is a gate with the answers to its requests.
type fixture struct {
	*Gate
	annotation string
	crds       map[string]*metav1.ObjectMeta
	forbidden  bool
	problems   health.Problems
	looked     int
	ended      int
	store      *store.Store
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	_, client := agenttest.NewAPIServer(t)
	b := &fixture{store: store.New(client, "p"), crds: map[string]*metav1.ObjectMeta{}}
	for _, kind := range []replica.Kind{replica.KindRule, replica.KindFeature} {
		b.crds[crdOf(kind)] = &metav1.ObjectMeta{UID: types.UID("first " + crdOf(kind))}
	}
	if err := b.store.Replace(t.Context(), store.IdentitySecret, map[string][]byte{"epoch": []byte("1")}); err != nil {
		t.Fatal(err)
	}
	b.start()
	return b
}

// start makes another gate, as a restart of the agent does.
func (b *fixture) start() {
	b.Gate = New(Options{
		Store: b.store, Name: func() string { return "own" }, Problem: b.problems.Reporter("history"), Log: slog.New(slog.DiscardHandler),
		Annotation: func(context.Context) (string, error) { return b.annotation, nil },
		ReadCRD: func(_ context.Context, name string) (*metav1.ObjectMeta, error) {
			if b.forbidden {
				return nil, kube.ErrForbidden
			}
			return b.crds[name], nil
		},
	})
	b.Hooks = Hooks{RecheckOwn: func() { b.looked++ }, Ended: func() { b.ended++ }}
}

// The value of the annotation from before the freeze does not confirm, and neither does an empty one.
func TestOnlyNewAnnotationConfirms(t *testing.T) {
	b := newFixture(t)
	b.Freeze()
	before, open := b.Open()
	if open {
		t.Error("a freeze leaves the gate open")
	}
	for i, c := range []struct {
		token       string
		first, ends bool
	}{{"old", true, false}, {"old", false, false}, {"", false, false}, {"new", false, true}, {"newer", false, false}} {
		if first, ends := b.observe(c.token); first != c.first || ends != c.ends {
			t.Errorf("%d: %q first %t, ends %t", i, c.token, first, ends)
		}
	}
	if after, open := b.Open(); !open || after == before {
		t.Errorf("after the confirmation it is open %t, period %d after %d", open, after, before)
	}
	if b.Frozen() || !b.MayReopen() {
		t.Error("a confirmation allows a new epoch")
	}
	if b.Reopened(); b.MayReopen() {
		t.Error("it allows two")
	}
}

// A restart does not end a freeze, and the message names the annotation only once its old value is known.
func TestFreezeSurvivesRestart(t *testing.T) {
	b := newFixture(t)
	b.annotation = "restored"
	b.Freeze()
	report := func() string {
		t.Helper()
		if err := b.report(t.Context()); err != nil {
			t.Fatal(err)
		}
		return b.problems.String()
	}
	if message := report(); !strings.Contains(message, ErrRestored.Error()) || strings.Contains(message, v1alpha1.AnnotationConfirmRestore) {
		t.Errorf("before it is known what was there the problem is %q", message)
	}
	for range 2 { // the informer may enqueue the object several times
		if err := b.Confirm(t.Context()); err != nil || !b.Frozen() || b.ended > 0 {
			t.Fatalf("confirmed by what was there: %v", err)
		}
		if message := report(); !strings.Contains(message, "cluster own "+v1alpha1.AnnotationConfirmRestore) {
			t.Errorf("the problem is %q", message)
		}
	}
	if b.looked != 3 {
		t.Errorf("the Cluster object was looked at %d times, not after each of 3 messages", b.looked)
	}
	b.start()
	if err := b.Resume(t.Context()); err != nil || !b.Frozen() || *b.state() != (freeze{Known: true, Token: "restored"}) {
		t.Fatalf("after a start: %+v, %v", b.state(), err)
	}
	b.annotation = "now"
	if err := b.Confirm(t.Context()); err != nil || b.Frozen() || b.ended != 1 {
		t.Errorf("another annotation after a start: %v, frozen %t, ended %d times", err, b.Frozen(), b.ended)
	}
	if message := report(); message != "" {
		t.Errorf("after the confirmation the problem is %q", message)
	}
	b.start()
	if err := b.Resume(t.Context()); err != nil || b.Frozen() {
		t.Errorf("after the confirmation and a start it is frozen %t, %v", b.Frozen(), err)
	}
}

// A freeze that Mark recorded is continued by the next gate.
func TestMarkBeginsFreeze(t *testing.T) {
	b := newFixture(t)
	err := b.store.Change(t.Context(), store.IdentitySecret, func(secret *kube.Secret) (bool, error) {
		Mark(secret)
		Mark(secret)
		return true, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Resume(t.Context()); err != nil || !b.Frozen() || b.state().Known {
		t.Errorf("marked, it is %+v, %v", b.state(), err)
	}
	if err := b.store.SetKey(t.Context(), store.IdentitySecret, freezeKey, []byte("torn")); err != nil {
		t.Fatal(err)
	}
	b.start()
	if err := b.Resume(t.Context()); err != nil || !b.Frozen() {
		t.Errorf("a record that cannot be read is no freeze: %v", err)
	}
}

// A CRD that was created again has none of the objects that were there: that is a freeze.
func TestReplacedCRDBeginsFreeze(t *testing.T) {
	rules := crdOf(replica.KindRule)
	for name, change := range map[string]func(*fixture){
		"made again": func(b *fixture) { b.crds[rules] = &metav1.ObjectMeta{UID: "second"} },
		"gone":       func(b *fixture) { delete(b.crds, rules) },
		"going":      func(b *fixture) { b.crds[rules].DeletionTimestamp = &metav1.Time{} },
	} {
		for when, look := range map[string]func(*fixture) error{
			"while away": func(b *fixture) error { b.start(); return b.Resume(t.Context()) },
			"listed":     func(b *fixture) error { b.ProveListed(t.Context()); return nil },
			"deleted":    func(b *fixture) error { return b.ProveDeleted(t.Context(), replica.KindRule) },
		} {
			b := newFixture(t)
			if err := b.Resume(t.Context()); err != nil || b.Frozen() {
				t.Fatalf("at first: frozen %t, %v", b.Frozen(), err)
			}
			if err := look(b); err != nil || b.Frozen() {
				t.Errorf("%s: unchanged it freezes: %v", when, err)
			}
			change(b)
			if err := look(b); err != nil || !b.Frozen() {
				t.Errorf("%s, %s: it does not freeze: %v", name, when, err)
			}
		}
	}
}

// If the agent never could read CRDs, it trusts the API server. If it lost that right, a deletion is not proven.
func TestProofWithoutRightToReadCRDs(t *testing.T) {
	b := newFixture(t)
	b.forbidden = true
	if err := b.ProveDeleted(t.Context(), replica.KindRule); err != nil || b.Frozen() {
		t.Errorf("never read: frozen %t, %v", b.Frozen(), err)
	}
	b.forbidden = false
	if err := b.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.forbidden = true
	if err := b.ProveDeleted(t.Context(), replica.KindRule); !errors.Is(err, kube.ErrForbidden) || b.Frozen() {
		t.Errorf("read before: frozen %t, %v", b.Frozen(), err)
	}
}

// Only the registry's kinds and Secrets are signs of a restore.
func TestKindsThatShowRestore(t *testing.T) {
	b := newFixture(t)
	if b.RolledBack(v1alpha1.SchemeGroupVersion.WithKind("Cluster").GroupVersion().WithKind("Event")); !b.Frozen() {
		t.Error("a kind of the registry does not count")
	}
	b.start()
	if b.RolledBack(metav1.SchemeGroupVersion.WithKind("Event")) || b.Frozen() {
		t.Error("events count")
	}
	if !b.RolledBack((&kube.Client{}).Secrets("").Kind()) || !b.Frozen() {
		t.Error("Secrets do not count")
	}
}
