// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
)

// call is one request under way.
type call struct {
	ctx    context.Context //nolint:containedctx // of the handler, which the test looks at
	answer chan error
	end    chan error
}

// under begins a request that is answered when the test says so, or when it is given up.
func under(t *testing.T, w *writes, method string) *call {
	t.Helper()
	c := &call{answer: make(chan error, 1), end: make(chan error, 1)}
	begun := make(chan struct{})
	go func() {
		answer, err := w.intercept(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: method}, func(ctx context.Context, _ any) (any, error) {
			c.ctx = ctx
			close(begun)
			select {
			case err := <-c.answer:
				return "answer", err
			case <-ctx.Done():
				return nil, rpctypes.ErrGRPCCanceled // as etcd has it
			}
		})
		if err == nil && answer != "answer" {
			err = errors.New("no answer")
		}
		c.end <- err
	}()
	<-begun
	return c
}

// Writes that began before there was another leader, and are not answered, fail; all others are left alone.
func TestGiveUp(t *testing.T) {
	t.Parallel()
	const txn = "/etcdserverpb.KV/Txn"
	w := &writes{}
	happened, lost, read := under(t, w, txn), under(t, w, txn), under(t, w, "/etcdserverpb.KV/Range")
	happened.answer <- nil
	if err := <-happened.end; err != nil {
		t.Error(err)
	}
	begun := w.begun()
	later := under(t, w, txn)
	w.giveUp(begun)
	if err := <-lost.end; !errors.Is(err, rpctypes.ErrGRPCLeaderChanged) {
		t.Errorf("a write that was lost: %v", err)
	}
	for name, c := range map[string]*call{"a read": read, "a write that began later": later} {
		if c.ctx.Err() != nil {
			t.Errorf("%s was given up", name)
		}
		c.answer <- rpctypes.ErrGRPCCompacted
		if err := <-c.end; !errors.Is(err, rpctypes.ErrGRPCCompacted) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(w.cancel) != 0 {
		t.Errorf("%d writes are remembered that have been answered", len(w.cancel))
	}
}

// The marker of a change of leaders leaves no trace.
func TestMarker(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir()+"/etcd")
	defer s.Close()
	before, err := s.Client().Get(t.Context(), marker)
	if err != nil {
		t.Fatal(err)
	}
	if !s.mark(t.Context()) {
		t.Error("the marker did not happen")
	}
	after, err := s.Client().Get(t.Context(), marker)
	if err != nil || after.Header.Revision != before.Header.Revision {
		t.Errorf("the revision was %d and is %d, %v", before.Header.Revision, after.Header.Revision, err)
	}
}
