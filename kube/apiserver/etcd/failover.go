// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/roster-mesh/roster/kube/apiserver/waiting"
)

// A member passes each write on to the one that leads. If that one is gone, the write is lost with it, and etcd waits
// seven seconds before it says so, although another member leads after one or two. Here such a write fails as soon as it
// is most likely lost, so that the client can try again. It may have happened, or happen yet when a leader that stood still
// goes on: as after any timeout, and as with etcd alone.

const (
	// marker is a key that is never there. Its deletion goes the way that every write goes, and changes nothing.
	marker = "/roster-apiserver/marker"
	// markerTimeout bounds one attempt: a marker can be lost as well.
	markerTimeout = time.Second
	markerPause   = 50 * time.Millisecond
	// answered is how long a write may take to be answered after it has happened.
	answered = 200 * time.Millisecond
)

// errLost is the cause with which the context of a lost write ends.
var errLost = errors.New("the leader has changed")

// writes are those that have not been answered, each with a number that is higher than those before.
type writes struct {
	mu     sync.Mutex
	latest uint64
	cancel map[uint64]context.CancelCauseFunc
}

// intercept is a grpc.UnaryServerInterceptor.
func (w *writes) intercept(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	if strings.HasSuffix(info.FullMethod, "/Range") { // etcd itself asks the new leader
		return handle(ctx, request)
	}
	ctx, end := w.begin(ctx)
	defer end()
	answer, err := handle(ctx, request)
	if status.Code(err) == codes.Canceled && errors.Is(context.Cause(ctx), errLost) {
		return nil, rpctypes.ErrGRPCLeaderChanged
	}
	return answer, err
}

func (w *writes) begin(ctx context.Context) (_ context.Context, end func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.latest++
	number := w.latest
	if w.cancel == nil {
		w.cancel = map[uint64]context.CancelCauseFunc{}
	}
	w.cancel[number] = cancel
	return ctx, func() {
		cancel(nil)
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.cancel, number)
	}
}

// begun returns the number of the latest write.
func (w *writes) begun() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.latest
}

// giveUp ends those up to this number that have not been answered.
func (w *writes) giveUp(number uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for n, cancel := range w.cancel {
		if n <= number {
			cancel(errLost)
		}
	}
}

// followLeaders gives up the writes that were lost with a leader, whenever there is another one, until ctx ends.
func (s *Server) followLeaders(ctx context.Context) {
	changed := s.etcd.Server.LeaderChangedNotify()
	for {
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
		changed = s.etcd.Server.LeaderChangedNotify()
		begun := s.writes.begun()
		// What was written through this member before the marker, and was not lost, has most likely happened when the marker has.
		for pause := markerPause; !s.mark(ctx) && ctx.Err() == nil; pause = min(2*pause, markerTimeout) {
			waiting.Sleep(ctx, pause)
		}
		waiting.Sleep(ctx, answered)
		s.writes.giveUp(begun)
	}
}

// mark says whether the marker's deletion has happened.
func (s *Server) mark(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, markerTimeout)
	defer cancel()
	_, err := s.client.Delete(ctx, marker)
	return err == nil
}
