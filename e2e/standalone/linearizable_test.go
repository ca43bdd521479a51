// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package standalone

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/roster-mesh/roster/e2e/standalone/history"
)

var (
	rounds = flag.Int("rounds", 3, "how often TestLinearizable kills the server")
	seed   = flag.Uint64("seed", 1, "what TestLinearizable asks for")
)

const (
	// writers ask at the same time.
	writers = 4
	// names of objects that each round adds. They are written to in this round and in the next.
	namesPerRound = 30
	// killAfter is how many writes are acknowledged in a round before the server is killed.
	killAfter = 150
)

// TestLinearizable: a server that is killed again and again under writes loses none that it has acknowledged, and shows
// nobody an older value after a newer one.
func TestLinearizable(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "d")
	h := history.New()
	var names []string
	for round := range *rounds {
		s := start(t, dir)
		client := s.kubernetes(t).CoreV1().RESTClient()
		readAll(t, h, client, names)
		for i := range namesPerRound {
			names = append(names, fmt.Sprintf("round-%d-%d", round, i))
		}
		l := &load{history: h, client: client, names: names[max(0, len(names)-2*namesPerRound):], enough: make(chan struct{})}
		var all sync.WaitGroup
		for writer := range writers {
			random := rand.New(rand.NewPCG(*seed, uint64(round*writers+writer)))
			all.Go(func() { l.run(t.Context(), round*writers+writer, random) })
		}
		select {
		case <-l.enough:
		case <-time.After(within):
			t.Errorf("round %d: %d writes were acknowledged", round, l.writes.Load())
		}
		if err := s.Signal(syscall.SIGKILL, within); err != nil {
			t.Fatal(err)
		}
		all.Wait()
	}
	s := start(t, dir)
	readAll(t, h, s.kubernetes(t).CoreV1().RESTClient(), names)
	for _, op := range []history.Op{history.Get, history.Create, history.Update} {
		if done := h.Count(op, history.Done); done < *rounds*10 {
			t.Errorf("only %d calls of %s were done", done, op)
		}
	}
	if err := h.Check(within); err != nil {
		t.Errorf("with -seed=%d: %v", *seed, err)
	}
}

// readAll reads every object by name, as a client of its own.
func readAll(t *testing.T, h *history.History, client rest.Interface, names []string) {
	t.Helper()
	for _, name := range names {
		end := h.Begin(history.Call{Client: -1, Op: history.Get, Name: name})
		reply, _, err := ask(t.Context(), client, history.Call{Op: history.Get, Name: name}, "")
		if reply.Outcome == history.Unknown {
			t.Fatal(err)
		}
		end(reply)
	}
}

// load is what one round's writers share.
type load struct {
	history *history.History
	client  rest.Interface
	names   []string
	writes  atomic.Int64  // acknowledged in this round
	enough  chan struct{} // closed when there are killAfter of them
}

// seen is what a writer last read or wrote of an object. It is empty when the object is another one by now.
type seen struct{ value, version string }

// run asks for one thing after the other until the server is gone.
func (l *load) run(ctx context.Context, writer int, random *rand.Rand) {
	last := map[string]seen{}
	for i := 0; ctx.Err() == nil; i++ {
		call := history.Call{Client: writer, Name: l.names[random.IntN(len(l.names))], Op: history.Get}
		have, known := last[call.Name]
		switch read := random.IntN(10) < 3; {
		case read, known && have.value == "":
		case known:
			call.Op, call.Value, call.Over = history.Update, fmt.Sprintf("v%d-%d", writer, i), have.value
		default:
			call.Op, call.Value = history.Create, fmt.Sprintf("v%d-%d", writer, i)
		}
		end := l.history.Begin(call)
		reply, object, err := ask(ctx, l.client, call, have.version)
		if errors.Is(err, syscall.ECONNREFUSED) {
			return // it was not sent
		}
		end(reply)
		switch reply.Outcome {
		case history.Unknown:
			return // the server was killed
		case history.Done:
			last[call.Name] = seen{object.Data["value"], object.ResourceVersion}
			if call.Op != history.Get && l.writes.Add(1) == killAfter {
				close(l.enough)
			}
		case history.Exists, history.Conflict:
			last[call.Name] = seen{}
		default:
		}
	}
}

// ask sends a call once, and says what came of it.
func ask(ctx context.Context, client rest.Interface, c history.Call, version string) (history.Reply, *corev1.ConfigMap, error) {
	object := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: c.Name, ResourceVersion: version},
		Data:       map[string]string{"value": c.Value},
	}
	var request *rest.Request
	switch c.Op {
	case history.Create:
		object.ResourceVersion = ""
		request = client.Post().Body(object)
	case history.Update:
		request = client.Put().Name(c.Name).Body(object)
	default:
		request = client.Get().Name(c.Name)
	}
	got := &corev1.ConfigMap{}
	err := request.Namespace(metav1.NamespaceDefault).Resource("configmaps").MaxRetries(0).Do(ctx).Into(got)
	reply := history.Reply{Outcome: history.Unknown}
	switch {
	case err == nil:
		reply.Outcome = history.Done
		if c.Op == history.Get {
			reply.Value = got.Data["value"]
		}
	case apierrors.IsNotFound(err):
		reply.Outcome = history.NotFound
	case apierrors.IsAlreadyExists(err):
		reply.Outcome = history.Exists
	case apierrors.IsConflict(err):
		reply.Outcome = history.Conflict
	}
	return reply, got, err
}
