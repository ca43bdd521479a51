// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package standalone

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/roster-mesh/roster/e2e/standalone/history"
)

const (
	// writers ask at the same time.
	writers = 4
	// patience is how long a writer waits for an answer: a write that begins while the servers have no leader may be lost.
	patience = 5 * time.Second
)

// load asks the servers of one cluster for one thing after the other, and writes down what it is told.
type load struct {
	history *history.History
	servers []atomic.Pointer[rest.Interface] // nil while one is not there
	names   atomic.Pointer[[]string]         // the objects that are asked for
	turns   chan struct{}                    // each is one request
	all     sync.WaitGroup
}

// newLoad has writers that ask when they get a turn, until ctx ends or stop.
func newLoad(ctx context.Context, h *history.History, servers int, seed uint64) *load {
	l := &load{history: h, servers: make([]atomic.Pointer[rest.Interface], servers), turns: make(chan struct{})}
	for writer := range writers {
		random := rand.New(rand.NewPCG(seed, uint64(writer)))
		l.all.Go(func() { l.run(ctx, writer, random) })
	}
	return l
}

// stop returns when nothing is asked any more.
func (l *load) stop() {
	close(l.turns)
	l.all.Wait()
}

// use makes the writers ask a server from now on.
func (l *load) use(i int, client rest.Interface) { l.servers[i].Store(&client) }

// leave makes them leave it alone.
func (l *load) leave(i int) { l.servers[i].Store(nil) }

// begin returns when that many more requests have begun.
func (l *load) begin(ctx context.Context, requests int) {
	for range requests {
		select {
		case l.turns <- struct{}{}:
		case <-ctx.Done():
		}
	}
}

// during begins that many requests while act goes on, and returns when both are done.
func (l *load) during(ctx context.Context, requests int, act func()) {
	var begun sync.WaitGroup
	begun.Go(func() { l.begin(ctx, requests) })
	act()
	begun.Wait()
}

// seen is what a writer last read or wrote of an object. It is empty when the object may be another one by now.
type seen struct{ value, version string }

// run is one writer. What it has written it reads next, mostly by way of another server, which may be a moment behind.
func (l *load) run(ctx context.Context, writer int, random *rand.Rand) {
	last := map[string]seen{}
	client, written := writer, ""
	for i := 0; ; i++ {
		select {
		case _, more := <-l.turns:
			if !more {
				return
			}
		case <-ctx.Done():
			return
		}
		at := random.IntN(len(l.servers))
		server := l.servers[at].Load()
		if server == nil {
			continue
		}
		call, version := l.choose(random, last, fmt.Sprintf("v%d-%d", writer, i))
		if written != "" {
			call, version = history.Call{Op: anyRead(random), Name: written}, ""
		}
		call.Client, call.Via, written = client, fmt.Sprint("server ", at), ""
		reply, object := l.ask(ctx, *server, call, version)
		switch reply.Outcome {
		case "": // it was not sent
		case history.Done:
			last[call.Name] = seen{object.Data["value"], object.ResourceVersion}
			if !call.Op.Reads() {
				written = call.Name
			}
		case history.Unknown:
			client += writers // this request may be under way for good
			last[call.Name] = seen{}
		case history.Exists, history.Conflict:
			last[call.Name] = seen{}
		default:
		}
	}
}

// choose returns what a writer asks for next, and the version for an update.
func (l *load) choose(random *rand.Rand, last map[string]seen, value string) (call history.Call, version string) {
	names := *l.names.Load()
	call.Name = names[random.IntN(len(names))]
	have, known := last[call.Name]
	switch read := random.IntN(10) < 1; {
	case read, known && have.value == "":
		call.Op = anyRead(random)
	case known:
		call.Op, call.Value, call.Over = history.Update, value, have.value
	default:
		call.Op, call.Value = history.Create, value
	}
	return call, have.version
}

func anyRead(random *rand.Rand) history.Op {
	return []history.Op{history.Get, history.List}[random.IntN(2)]
}

// ask makes a request, and writes it down if it was sent.
func (l *load) ask(ctx context.Context, client rest.Interface, call history.Call, version string) (history.Reply, *corev1.ConfigMap) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	end := l.history.Begin(call)
	reply, object, err := ask(ctx, client, call, version)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return history.Reply{}, nil
	}
	end(reply)
	return reply, object
}

// readAll reads every object through a server, by get and by list, as a client of its own. Each is read until it is
// answered.
func (l *load) readAll(t *testing.T, i int, client rest.Interface, names []string) {
	t.Helper()
	for _, name := range names {
		for _, op := range []history.Op{history.Get, history.List} {
			eventually(t, fmt.Sprintf("%s of %s at server %d", op, name, i), func(ctx context.Context) error {
				reply, _ := l.ask(ctx, client, history.Call{Client: -1 - i, Via: fmt.Sprint("server ", i), Op: op, Name: name}, "")
				if reply.Outcome == history.Unknown || reply.Outcome == "" {
					return errors.New("no answer")
				}
				return nil
			})
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
	case history.List: // by the watch cache, which first asks etcd how new it must be
		request = client.Get().Param("fieldSelector", "metadata.name="+c.Name)
	default: // by etcd, as no version is named
		request = client.Get().Name(c.Name)
	}
	request = request.Namespace(metav1.NamespaceDefault).Resource("configmaps").MaxRetries(0)
	got := &corev1.ConfigMap{}
	err := do(ctx, request, c, got)
	reply := history.Reply{Outcome: history.Unknown}
	switch {
	case err == nil:
		reply.Outcome = history.Done
		if c.Op.Reads() {
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

// do reads the one object that a list has. A list without one is as a get of what is not there.
func do(ctx context.Context, request *rest.Request, c history.Call, got *corev1.ConfigMap) error {
	if c.Op != history.List {
		return request.Do(ctx).Into(got)
	}
	list := &corev1.ConfigMapList{}
	if err := request.Do(ctx).Into(list); err != nil {
		return err
	}
	if meta.LenList(list) == 0 {
		return apierrors.NewNotFound(corev1.Resource("configmaps"), c.Name)
	}
	list.Items[0].DeepCopyInto(got)
	return nil
}
