// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/roster-mesh/roster/agent/directory"
	"github.com/roster-mesh/roster/agent/loop"
	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/history"
	"github.com/roster-mesh/roster/syncrules/engine"
)

// The next agent knows what is recorded, also for peers that it reads only later. The record is written once after each
// change.
func TestPositionsAreRecorded(t *testing.T) {
	api, o := options(t)
	b := list(t, o, idB)
	list(t, o, idC)
	p := New(o)
	next := func() map[string][]byte {
		t.Helper()
		if err := p.recordPositions(t.Context()); err != nil {
			t.Fatal(err)
		}
		past, err := ReadPositions(t.Context(), o.Store, o.Log)
		if err != nil {
			t.Fatal(err)
		}
		return past.notes
	}
	if past := next(); len(past) > 0 {
		t.Errorf("without peers: %q", past)
	}
	p.positions(idB).Confirm("yes")
	want, err := p.positions(idB).Note()
	if err != nil {
		t.Fatal(err)
	}
	past := next()
	if diff := cmp.Diff(map[string][]byte{idB: want}, past); diff != "" {
		t.Errorf("recorded (-want +got):\n%s", diff)
	}
	api.SetObject(positionsSecret, nil)
	if past := next(); len(past) > 0 {
		t.Errorf("written without a change: %q", past)
	}
	o.Positions = Recorded{notes: past, parts: 1}
	p = New(o) // another agent, which has not come to B yet
	p.positions(idC).Confirm("yes")
	if past = next(); len(past) != 2 || string(past[idB]) != string(want) {
		t.Errorf("of B and C there is %q", past)
	}
	o.Positions = Recorded{notes: past, parts: 1}
	p = New(o)
	p.positions(idB).Confirm("yes")
	if p.takeNews() {
		t.Error("what was confirmed to an earlier agent is recorded again")
	}
	api.SetObject(positionsSecret, nil)
	p.positions(idB).Confirm("later")
	p.positions(idC)
	if err := o.Directory.Registry.Drop(b); err != nil {
		t.Fatal(err)
	}
	p.ForgetPositions(idB)
	if past = next(); len(past) != 1 || past[idC] == nil {
		t.Errorf("after B was forgotten there is %q", past)
	}
	o.Positions = Recorded{notes: map[string][]byte{idB: want}}
	p = New(o)
	if past = next(); len(past) > 0 || p.positions(idB).News() {
		t.Errorf("B, which is not known any more, is recorded still: %q", past)
	}
}

// A failed write of the record is retried.
func TestFailedPositionsWriteIsRetried(t *testing.T) {
	_, o := options(t)
	list(t, o, idB)
	p := New(o)
	p.positions(idB).Confirm("yes")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.recordPositions(ctx); err == nil {
		t.Fatal("recorded without an API server")
	}
	if err := p.recordPositions(t.Context()); err != nil {
		t.Fatal(err)
	}
	if past, err := ReadPositions(t.Context(), o.Store, o.Log); past.notes[idB] == nil || err != nil {
		t.Errorf("recorded: %q, %v", past.notes, err)
	}
}

// The Secrets of a larger record are deleted, also when that fails first, or after an agent that was stopped meanwhile. No
// Secret is asked for that is not there.
func TestPositionsLeaveNoSecretBehind(t *testing.T) {
	api, o := options(t)
	list(t, o, idB)
	var p *Peers
	writes := 0
	write := func(fails bool, deletes ...string) {
		t.Helper()
		writes++
		p.positions(idB).Confirm(fmt.Sprint(writes))
		if err := p.recordPositions(t.Context()); (err != nil) != fails {
			t.Fatal(err)
		}
		if diff := cmp.Diff(deletes, api.Deleted(), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("deleted (-want +got):\n%s", diff)
		}
	}
	start := func(parts int) {
		t.Helper()
		var err error
		if o.Positions, err = ReadPositions(t.Context(), o.Store, o.Log); err != nil || o.Positions.parts != parts {
			t.Fatalf("there are %d Secrets, want %d: %v", o.Positions.parts, parts, err)
		}
		p = New(o)
	}
	start(0)
	write(false)
	write(false)
	for part := range 4 {
		api.SetObject(positionsName(part), fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":%q}}`, positionsName(part)))
	}
	start(4)
	api.FailDeletes(1)
	write(true)
	write(false, positionsName(3), positionsName(2), positionsName(1))
	write(false)
	start(1)
	for part := range 3 {
		api.SetObject(positionsName(part), fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":%q}}`, positionsName(part)))
	}
	start(3)
	api.FailDeletes(0)
	write(false, positionsName(2), positionsName(1))
	start(1)
}

// A restore is recorded at once, and not after the usual pause.
func TestRestoreIsRecordedAtOnce(t *testing.T) {
	for err, want := range map[error]bool{nil: false, kube.ErrForbidden: false, kube.ErrRestored: true} {
		synctest.Test(t, func(t *testing.T) {
			p := New(Options{Log: slog.New(slog.DiscardHandler), Directory: &directory.Directory{}})
			var recorded atomic.Int32
			p.record = loop.NewTask("", p.options.Log, func(context.Context) error {
				recorded.Add(1)
				return nil
			})
			ctx, cancel := context.WithCancel(t.Context())
			go func() { _ = p.Run(ctx) }()
			sink := &healthSink{Sink: nobody{}, connection: &connection{peers: p, id: idB}}
			sink.Health(err)
			synctest.Wait()
			if got := recorded.Load() > 0; got != want {
				t.Errorf("after %v it is recorded: %t", err, got)
			}
			time.Sleep(positionsFirst)
			synctest.Wait()
			if recorded.Load() == 0 {
				t.Error("it is never recorded")
			}
			cancel()
			synctest.Wait()
		})
	}
}

// nobody is a sink that ignores the health of a watch.
type nobody struct{ engine.Sink }

func (nobody) Health(error) {}

// An unreadable record does not keep the agent from starting.
func TestUnreadablePositions(t *testing.T) {
	api, o := options(t)
	for _, data := range []string{"", "e30=", "H4sIAAAAAAAA"} {
		api.SetObject(positionsSecret, fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Secret","data":{%q:%q}}`, positionsKey, data))
		if past, err := ReadPositions(t.Context(), o.Store, o.Log); len(past.notes) > 0 || past.parts != 1 || err != nil {
			t.Errorf("%s: %q, %v", data, past.notes, err)
		}
	}
	o.Positions = Recorded{notes: map[string][]byte{idB: []byte("{")}}
	if New(o).positions(idB) == nil {
		t.Error("no positions")
	}
}

// An agent that stops while it writes the record leaves older notes in the later Secrets.
func TestFirstPositionsSecretWins(t *testing.T) {
	api, o := options(t)
	if _, err := writePositions(t.Context(), o.Store, map[string][]byte{idB: []byte(`"newer"`)}, 0, o.Log); err != nil {
		t.Fatal(err)
	}
	older, _, err := packPositions([]string{idC, idB}, map[string][]byte{idC: []byte(`"c"`), idB: []byte(`"older"`)})
	if err != nil {
		t.Fatal(err)
	}
	api.SetObject(positionsName(1), fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Secret","data":{%q:%q}}`, positionsKey, base64.StdEncoding.EncodeToString(older)))
	past, err := ReadPositions(t.Context(), o.Store, o.Log)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string][]byte{idB: []byte(`"newer"`), idC: []byte(`"c"`)}, past.notes); diff != "" {
		t.Errorf("recorded (-want +got):\n%s", diff)
	}
}

// The record has room for a large group, and stays small enough for its Secrets when peers have long notes.
func TestPositionsRecordIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine compresses much, for which the race detector takes a minute and finds nothing")
	}
	api, o := options(t)
	var there int
	sizes := func(notes map[string][]byte) (out []int) {
		t.Helper()
		var err error
		if there, err = writePositions(t.Context(), o.Store, notes, there, o.Log); err != nil {
			t.Fatal(err)
		}
		for part := range maxParts + 1 {
			var secret kube.Secret
			if data := api.Object(positionsName(part)); data != nil {
				if err := json.Unmarshal(data, &secret); err != nil {
					t.Fatal(err)
				}
			}
			if packed := secret.Data[positionsKey]; len(packed) > 0 {
				out = append(out, len(packed))
			}
		}
		return out
	}
	source := rand.NewChaCha8([32]byte{}) // the same each time
	random := func(bytes int) string {
		data := make([]byte, bytes)
		_, _ = source.Read(data)
		return base64.RawURLEncoding.EncodeToString(data)
	}
	notes := map[string][]byte{}
	for i := range 1000 {
		var kinds []map[string]any
		for _, kind := range []string{"Secret", "ConfigMap", "Widget"} {
			one := map[string]any{"namespace": random(6), "name": random(12), "version": fmt.Sprint(100_000_000 + 7919*i)}
			kinds = append(kinds, map[string]any{"version": "v1", "kind": kind, "highest": fmt.Sprint(100_000_000 + 7919*i), "seen": 1_700_000_000 + i, "newest": []any{one}, "gone": []any{one}})
		}
		note, err := json.Marshal(map[string]any{"confirmations": [][]byte{[]byte(random(24))}, "kinds": kinds})
		if err != nil || history.NewPositions().Recall(note) != nil {
			t.Fatal("not a note")
		}
		notes[random(16)] = note
	}
	parts := sizes(notes)
	t.Logf("1,000 peers with three kinds each take %d bytes", parts)
	if len(parts) != 1 || parts[0] > maxPacked/2 {
		t.Errorf("1,000 peers with three kinds each take %d bytes", parts)
	}
	small := maps.Clone(notes)
	for range 100 {
		notes["large "+random(16)] = []byte(`"` + random(history.MaxNote*3/4-2) + `"`)
	}
	parts = sizes(notes)
	if len(parts) != maxParts || slices.Max(parts) > 1<<20-128<<10 {
		t.Errorf("the record has %d bytes", parts)
	}
	past, err := ReadPositions(t.Context(), o.Store, o.Log)
	if err != nil || len(past.notes) < 1000+maxParts || len(past.notes) == len(notes) {
		t.Fatalf("%d notes are recorded, error %v", len(past.notes), err)
	}
	for id, note := range notes {
		if len(note) < 10<<10 && string(past.notes[id]) != string(note) {
			t.Fatal("a small note was left out")
		}
	}
	if parts := sizes(small); len(parts) != 1 {
		t.Errorf("when there are few again the record has %d bytes", parts)
	}
}
