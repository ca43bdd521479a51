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

// bed is a gate with what it asks.
type bed struct {
	*Gate
	annotation string
	crds       map[string]*metav1.ObjectMeta
	forbidden  bool
	problems   health.Problems
	looked     int
	ended      int
	store      *store.Store
}

func newBed(t *testing.T) *bed {
	t.Helper()
	_, client := agenttest.NewAPIServer(t)
	b := &bed{store: store.New(client, "p"), crds: map[string]*metav1.ObjectMeta{}}
	for _, kind := range []replica.Kind{replica.KindRule, replica.KindFeature} {
		b.crds[definitionOf(kind)] = &metav1.ObjectMeta{UID: types.UID("first " + definitionOf(kind))}
	}
	if err := b.store.Replace(t.Context(), store.IdentitySecret, map[string][]byte{"epoch": []byte("1")}); err != nil {
		t.Fatal(err)
	}
	b.start()
	return b
}

// start makes another gate, as another start of the agent does.
func (b *bed) start() {
	b.Gate = New(Options{
		Store: b.store, Name: func() string { return "own" }, Problem: b.problems.Of("history"), Log: slog.New(slog.DiscardHandler),
		Annotation: func(context.Context) (string, error) { return b.annotation, nil },
		Definition: func(_ context.Context, name string) (*metav1.ObjectMeta, error) {
			if b.forbidden {
				return nil, kube.ErrForbidden
			}
			return b.crds[name], nil
		},
	})
	b.Hooks = Hooks{Look: func() { b.looked++ }, Ended: func() { b.ended++ }}
}

// What was on the Cluster object when the restore was noticed confirms nothing, whatever it is, and neither does nothing.
func TestOnlyANewAnnotationConfirms(t *testing.T) {
	b := newBed(t)
	b.Freeze()
	before, open := b.Open()
	if open {
		t.Error("a freeze leaves the gate open")
	}
	for i, c := range []struct {
		token       string
		first, ends bool
	}{{"old", true, false}, {"old", false, false}, {"", false, false}, {"new", false, true}, {"newer", false, false}} {
		if first, ends := b.hear(c.token); first != c.first || ends != c.ends {
			t.Errorf("%d: %q is heard first %t, ends it %t", i, c.token, first, ends)
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

// To start again is no confirmation, and the message names the annotation only when it is known what that was.
func TestAFreezeOutlivesTheAgent(t *testing.T) {
	b := newBed(t)
	b.annotation = "restored"
	b.Freeze()
	tell := func() string {
		t.Helper()
		if err := b.tell(t.Context()); err != nil {
			t.Fatal(err)
		}
		return b.problems.String()
	}
	if said := tell(); !strings.Contains(said, ErrRestored.Error()) || strings.Contains(said, v1alpha1.AnnotationConfirmRestore) {
		t.Errorf("before it is known what was there it says %q", said)
	}
	for range 2 { // the informer may tell of the object several times
		if err := b.Confirm(t.Context()); err != nil || !b.Frozen() || b.ended > 0 {
			t.Fatalf("confirmed by what was there: %v", err)
		}
		if said := tell(); !strings.Contains(said, "cluster own "+v1alpha1.AnnotationConfirmRestore) {
			t.Errorf("it says %q", said)
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
	if said := tell(); said != "" {
		t.Errorf("after the confirmation it says %q", said)
	}
	b.start()
	if err := b.Resume(t.Context()); err != nil || b.Frozen() {
		t.Errorf("after the confirmation and a start it is frozen %t, %v", b.Frozen(), err)
	}
}

// Who wrote the epoch back because the record was older has marked that, whatever the gate knew.
func TestAMarkIsAFreeze(t *testing.T) {
	b := newBed(t)
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

// A CRD that is another one than before has none of the objects that were there.
func TestACRDThatWasMadeAgainFreezes(t *testing.T) {
	rules := definitionOf(replica.KindRule)
	for name, change := range map[string]func(*bed){
		"made again": func(b *bed) { b.crds[rules] = &metav1.ObjectMeta{UID: "second"} },
		"gone":       func(b *bed) { delete(b.crds, rules) },
		"going":      func(b *bed) { b.crds[rules].DeletionTimestamp = &metav1.Time{} },
	} {
		for when, look := range map[string]func(*bed) error{
			"while away": func(b *bed) error { b.start(); return b.Resume(t.Context()) },
			"listed":     func(b *bed) error { b.ProveListed(t.Context()); return nil },
			"deleted":    func(b *bed) error { return b.ProveDeleted(t.Context(), replica.KindRule) },
		} {
			b := newBed(t)
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

// Where CRDs may not be read, and never could be, the word of the API server counts; where they could, it is not known.
func TestProofWithoutTheRight(t *testing.T) {
	b := newBed(t)
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

// A restore is told by the registry's kinds and Secrets alone.
func TestWhatTellsOfARestore(t *testing.T) {
	b := newBed(t)
	if b.WentBack(v1alpha1.SchemeGroupVersion.WithKind("Cluster").GroupVersion().WithKind("Event")); !b.Frozen() {
		t.Error("a kind of the registry does not count")
	}
	b.start()
	if b.WentBack(metav1.SchemeGroupVersion.WithKind("Event")) || b.Frozen() {
		t.Error("events count")
	}
	if !b.WentBack((&kube.Client{}).Secrets("").Kind()) || !b.Frozen() {
		t.Error("Secrets do not count")
	}
}
