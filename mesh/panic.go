// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"runtime/debug"
)

// errPanic: what serves a call panicked.
var errPanic = errors.New("it panicked")

// guardMethod returns Serve of a method, of which a panic fails the call and nothing else.
func (m *Mesh) guardMethod(name string, serve func(context.Context, Caller, []byte) ([]byte, error)) func(context.Context, Caller, []byte) ([]byte, error) {
	return func(ctx context.Context, from Caller, request []byte) (answer []byte, err error) {
		defer func() {
			if v := recover(); v != nil {
				m.reportPanic(name, from, v)
				answer, err = nil, errPanic
			}
		}()
		return serve(ctx, from, request)
	}
}

// guardProtocol returns Serve of a protocol, of which a panic ends the connection and nothing else.
func (m *Mesh) guardProtocol(name string, serve func(context.Context, Caller, net.Conn)) func(context.Context, Caller, net.Conn) {
	return func(ctx context.Context, from Caller, conn net.Conn) {
		defer func() {
			if v := recover(); v != nil {
				m.reportPanic(name, from, v)
			}
		}()
		serve(ctx, from, conn)
	}
}

// reportPanic logs where it was. Of its value only what the runtime says is logged: any other may hold a secret.
func (m *Mesh) reportPanic(name string, from Caller, v any) {
	m.metrics.drop(dropPanic)
	what := fmt.Sprintf("%T", v)
	if err, ok := v.(runtime.Error); ok {
		what = err.Error()
	}
	m.options.Log.Error("what serves a member panicked", "name", name, "cluster", from.ClusterID, "panic", what, "stack", string(debug.Stack()))
}
