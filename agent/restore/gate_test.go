// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

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
	crdsFail   error
	problems   health.Problems
	looked     int
	ended      int
	onAccept   func() error
	seen       uint64 // the later epoch that a member shows
	store      *store.Store
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	_, client := agenttest.NewAPIServer(t)
	b := &fixture{store: store.New(client, "p"), crds: map[string]*metav1.ObjectMeta{}, onAccept: func() error { return nil }}
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
		Store: b.store, Problem: b.problems.Reporter("history"), Log: slog.New(slog.DiscardHandler),
		Annotation: func(context.Context) (string, error) { return b.annotation, nil },
		Accept: func(ctx context.Context) error {
			if _, ok := ctx.Deadline(); !ok {
				return errors.New("a disk that hangs would stop the gate")
			}
			return b.onAccept()
		},
		EpochSeen: func() uint64 { return b.seen },
		ReadCRD: func(_ context.Context, name string) (*metav1.ObjectMeta, error) {
			if b.forbidden {
				return nil, kube.ErrForbidden
			}
			return b.crds[name], b.crdsFail
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

// A restart does not end a freeze, and the message names the command only once its old value is known.
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
	if message := report(); !strings.Contains(message, ErrRestored.Error()) || strings.Contains(message, v1alpha1.CommandConfirmRestore) {
		t.Errorf("before it is known what was there the problem is %q", message)
	}
	for range 2 { // the informer may enqueue the object several times
		if err := b.Confirm(t.Context()); err != nil || !b.Frozen() || b.ended > 0 {
			t.Fatalf("confirmed by what was there: %v", err)
		}
		if message := report(); !strings.Contains(message, ": "+v1alpha1.CommandConfirmRestore) {
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

// confirmed is a fixture whose freeze a person has confirmed, which is not recorded yet. The CRDs were made again.
func confirmed(t *testing.T) *fixture {
	t.Helper()
	b := newFixture(t)
	if err := b.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.crds[crdOf(replica.KindRule)] = &metav1.ObjectMeta{UID: "second"}
	b.annotation = "restored"
	b.Freeze()
	if err := errors.Join(b.Confirm(t.Context()), b.report(t.Context())); err != nil {
		t.Fatal(err)
	}
	b.annotation = "now"
	if err := b.Confirm(t.Context()); err != nil || b.Frozen() {
		t.Fatalf("confirmed, it is frozen %t, %v", b.Frozen(), err)
	}
	return b
}

// recorded is the record of a freeze.
func (b *fixture) recorded(t *testing.T) string {
	t.Helper()
	secret, err := b.store.Read(t.Context(), store.IdentitySecret)
	if err != nil {
		t.Fatal(err)
	}
	return string(secret.Data[freezeKey])
}

// An agent that is killed at any line after the confirmation does not ask for another one, and a higher epoch may be
// opened by the next start, too.
func TestKilledAfterConfirmation(t *testing.T) {
	failed := errors.New("failed")
	for name, c := range map[string]struct {
		until    func(*fixture) error
		recorded bool // it is still recorded as frozen
	}{
		"at once":                 {func(*fixture) error { return failed }, true},
		"position is not durable": {func(b *fixture) error { b.onAccept = func() error { return failed }; return b.report(t.Context()) }, true},
		"CRDs are not read":       {func(b *fixture) error { b.crdsFail = failed; return b.report(t.Context()) }, true},
		"recorded":                {func(b *fixture) error { return b.report(t.Context()) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := confirmed(t)
			b.seen = 7
			b.onAccept = func() error {
				if b.recorded(t) == "" {
					t.Error("the record is removed before the position is durable")
				}
				return nil
			}
			if err := c.until(b); (err != nil) != c.recorded || (b.recorded(t) != "") != c.recorded {
				t.Errorf("%v, and recorded is %q", err, b.recorded(t))
			}
			b.crdsFail, b.onAccept, b.seen = nil, func() error { return nil }, 0 // until the member is connected again
			for range 2 {
				b.start()
				if err := b.Resume(t.Context()); err != nil || b.Frozen() != c.recorded {
					t.Errorf("started, it is frozen %t, %v", b.Frozen(), err)
				}
			}
			if err := b.Confirm(t.Context()); err != nil || b.Frozen() || !b.MayReopen() {
				t.Errorf("it asks again %t, or does not open an epoch, %v", b.Frozen(), err)
			}
		})
	}
}

// What a confirmation permits ends with the epoch that is opened, with another freeze and after an hour, also by a record
// that a backup brought back.
func TestRecordPermitsOneEpoch(t *testing.T) {
	for name, end := range map[string]func(*fixture){"opened": (*fixture).Reopened, "frozen": (*fixture).Freeze} {
		b := confirmed(t)
		b.seen = 7
		if err := b.report(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.start() // its record is not due
		if err := b.Resume(t.Context()); err != nil || !b.MayReopen() {
			t.Fatalf("started, it permits an epoch %t, %v", b.MayReopen(), err)
		}
		if end(b); b.MayReopen() {
			t.Errorf("%s: it permits another one", name)
		}
		if _, asked := b.record.Due(); !asked {
			t.Errorf("%s: that is not recorded", name)
		}
		if err := b.report(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.start()
		if err := b.Resume(t.Context()); err != nil || b.MayReopen() || b.Frozen() != (name == "frozen") {
			t.Errorf("%s: the next start permits another one %t, is frozen %t, %v", name, b.MayReopen(), b.Frozen(), err)
		}
	}
	for name, c := range map[string]struct {
		record string
		want   bool
	}{
		"in time":         {time.Now().Add(reopenTime / 2).Format(time.RFC3339), true},
		"too late":        {time.Now().Add(-time.Minute).Format(time.RFC3339), false},
		"a clock was off": {time.Now().Add(9 * reopenTime).Format(time.RFC3339), true},
		"torn":            {"2026", false},
	} {
		b := newFixture(t)
		if err := b.store.SetKey(t.Context(), store.IdentitySecret, reopenKey, []byte(c.record)); err != nil {
			t.Fatal(err)
		}
		if err := b.Resume(t.Context()); err != nil || b.MayReopen() != c.want || time.Until(b.reopenUntil) > reopenTime {
			t.Errorf("%s: it permits an epoch %t, until %s, %v", name, b.MayReopen(), b.reopenUntil, err)
		}
	}
}

// The CRDs that are recorded are those from before the position became durable, and none where another freeze has begun.
func TestCRDsOfConfirmation(t *testing.T) {
	rules := crdOf(replica.KindRule)
	b := confirmed(t)
	b.onAccept = func() error { b.crds[rules] = &metav1.ObjectMeta{UID: "third"}; return nil }
	if err := b.report(t.Context()); err != nil || b.uid(rules) != "second" {
		t.Errorf("known is %q, %v", b.uid(rules), err)
	}
	if b.ProveListed(t.Context()); !b.Frozen() {
		t.Error("a CRD that was made again meanwhile is not noticed")
	}
	b = confirmed(t)
	b.onAccept = func() error { b.Freeze(); return nil }
	if err := b.report(t.Context()); err != nil || b.uid(rules) != "" || b.recorded(t) == "" {
		t.Errorf("frozen again, known is %q, recorded %q, %v", b.uid(rules), b.recorded(t), err)
	}
}

// A backup from after a confirmation is restored within the hour, and the agent has only the Secret: the confirmation of
// the first restore permits nothing after the second one.
func TestNextRestoreIsNotPermitted(t *testing.T) {
	b := confirmed(t)
	if err := b.report(t.Context()); err != nil || !b.MayReopen() {
		t.Fatalf("confirmed, a higher epoch may be opened %t, %v", b.MayReopen(), err)
	}
	b.start()
	if err := b.Resume(t.Context()); err != nil || b.Frozen() || b.MayReopen() {
		t.Errorf("after the next restore it is frozen %t, and may open an epoch %t, %v", b.Frozen(), b.MayReopen(), err)
	}
}

// A person is told the annotation once its old value is recorded, or the next start would take the new one for the old.
func TestAnnotationIsRecordedBeforeItIsNamed(t *testing.T) {
	b := newFixture(t)
	b.annotation = "restored"
	b.Freeze()
	if err := b.Confirm(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := b.store.Delete(t.Context(), store.IdentitySecret); err != nil {
		t.Fatal(err)
	}
	err := b.report(t.Context())
	if err == nil || strings.Contains(b.problems.String(), v1alpha1.AnnotationConfirmRestore) {
		t.Fatalf("not recorded, %v: the problem is %q", err, b.problems.String())
	}
	if !strings.Contains(b.problems.String(), err.Error()) {
		t.Errorf("the problem does not say why it is not recorded: %q", b.problems.String())
	}
	b.annotation = "set without being told"
	if err := b.Confirm(t.Context()); err != nil || b.Frozen() {
		t.Fatalf("confirmed, it is frozen %t, %v", b.Frozen(), err)
	}
	if err := b.report(t.Context()); err == nil || !strings.Contains(b.problems.String(), err.Error()) {
		t.Errorf("the end is not recorded, %v: the problem is %q", err, b.problems.String())
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
