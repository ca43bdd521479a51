// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// What a Method says by zero.
const (
	methodBytes   = 64 << 10
	methodTimeout = 30 * time.Second
)

// Method is a call that members may make of each other, see Options.Methods. Request and answer are bytes, whose meaning
// is that of the name for ever: any change of it is a new method. Of one peer two calls are served at a time, of all
// methods together; Pull has a count of its own.
type Method struct {
	// Serve answers a call of a member; it is called from many goroutines. from is that member, proven by the pinned
	// key. ctx ends after Timeout, or with the call; Serve must return then, for the call counts until it does, and
	// Run waits. The peer learns that an error was returned, and nothing of it: who serves logs it. A method without
	// Serve is only called.
	Serve func(ctx context.Context, from Caller, request []byte) (answer []byte, err error)
	// MaxRequest and MaxAnswer bound the two, in bytes; 0 is 64 KiB. A request has at most 2 MiB. An answer has at most
	// 64 KiB: it is kept until the peer takes it, when the call counts no more.
	MaxRequest, MaxAnswer int
	// Timeout bounds the call, where it is made and where it is served; 0 is 30 seconds, two minutes is most.
	Timeout time.Duration
	// Burst calls of one peer are served at once, and then one every Every; 0 is no such bound.
	Burst int
	Every time.Duration
}

// Call calls one of Options.Methods of a member. A member that does not serve it says so by an error, as one that runs
// an older version does.
func (m *Mesh) Call(ctx context.Context, clusterID, method string, request []byte) ([]byte, error) {
	o, ok := m.options.Methods[method]
	switch {
	case !ok:
		return nil, fmt.Errorf("call %s: it is not in Options.Methods", method)
	case len(request) > o.MaxRequest:
		return nil, fmt.Errorf("call %s: request of %d bytes: %w", method, len(request), errOversized)
	case !m.options.Trust.IsPeer(clusterID):
		return nil, ErrUnpinned
	}
	return m.clients.call(ctx, clusterID, method, o, request)
}

// Merge merges a message that a peer vouches for, like one of its delta, and forwards it when it is new. It keeps a copy. A
// peer that sends faster than signatures should be checked waits here. Who is not pinned gets ErrUnpinned.
func (m *Mesh) Merge(peer string, msg []byte) error {
	if !m.options.Trust.IsPeer(peer) {
		return ErrUnpinned
	}
	msg = bytes.Clone(msg)
	v, pull, err := m.merge(msg, peer, peer)
	if err != nil {
		return err
	}
	if v == fresh {
		m.broadcaster.spread([][]byte{msg}, peer)
	}
	if pull {
		m.pulls.request(peer)
	}
	return nil
}

// Send sends a copy of a message to a member, as news, and does not wait: it may get lost. One of 64 KiB or more is dropped:
// [Mesh.Broadcast] has it pulled. A member that has removed our key answers with the reason.
func (m *Mesh) Send(clusterID string, msg []byte) {
	if len(msg) > maxInline {
		m.metrics.drop(dropOversized)
		return
	}
	m.transport.packets.send(clusterID, frameMessage, bytes.Clone(msg))
}

// completeMethods fills in what is zero, and refuses what cannot be served, by name.
func completeMethods(methods map[string]Method) (map[string]Method, error) {
	all := maps.Clone(methods)
	for _, name := range slices.Sorted(maps.Keys(methods)) {
		m := methods[name]
		m.MaxRequest, m.MaxAnswer = cmp.Or(m.MaxRequest, methodBytes), cmp.Or(m.MaxAnswer, methodBytes)
		m.Timeout = cmp.Or(m.Timeout, methodTimeout)
		switch {
		case name == rpcPull:
			return nil, fmt.Errorf("%w: method %q is the mesh's own", errOptions, name)
		case name == "" || len(name) > 255 || strings.ContainsFunc(name, func(c rune) bool { return c <= ' ' || c > '~' || c == '/' }):
			return nil, fmt.Errorf("%w: method %q: the name must have 1 to 255 printable ASCII characters, none of them a space or '/'", errOptions, name)
		case m.MaxRequest < 0 || m.MaxRequest > maxDigest || m.MaxAnswer < 0 || m.MaxAnswer > methodBytes:
			return nil, fmt.Errorf("%w: method %q: a request has at most %d bytes, an answer %d", errOptions, name, maxDigest, methodBytes)
		case m.Timeout < 0 || m.Timeout > rpcTimeout:
			return nil, fmt.Errorf("%w: method %q: the timeout is at most %v", errOptions, name, rpcTimeout)
		case m.Burst < 0 || m.Every < 0 || (m.Burst == 0) != (m.Every == 0):
			return nil, fmt.Errorf("%w: method %q: Burst and Every bound its calls together", errOptions, name)
		}
		all[name] = m
	}
	return all, nil
}

// descriptors are the methods as gRPC wants them.
func (s *server) descriptors() []grpc.MethodDesc {
	var all []grpc.MethodDesc
	for _, name := range slices.Sorted(maps.Keys(s.methods)) {
		if s.methods[name].Serve != nil {
			all = append(all, grpc.MethodDesc{MethodName: name, Handler: s.methods[name].handle(name)})
		}
	}
	return all
}

// handle serves a call of a member.
func (m Method) handle(name string) grpc.MethodHandler {
	return func(srv any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		s := srv.(*server)
		from, end, err := s.admitCall(ctx, false)
		if err != nil {
			return nil, err
		}
		defer end()
		var request []byte
		if err := decode(&request); err != nil {
			return nil, err
		}
		if len(request) > m.MaxRequest {
			s.metrics.drop(dropOversized)
			return nil, status.Error(codes.ResourceExhausted, "request is too large")
		}
		if m.Burst > 0 && !s.allow(from.ClusterID, name, m) {
			s.metrics.drop(dropPeerLimit)
			return nil, status.Error(codes.ResourceExhausted, "too many calls in a short time")
		}
		ctx, cancel := context.WithTimeout(ctx, m.Timeout)
		defer cancel()
		answer, err := m.Serve(ctx, from, request)
		switch {
		case err != nil:
			return nil, status.Error(codes.Unavailable, "the call failed there")
		case len(answer) > m.MaxAnswer:
			return nil, status.Error(codes.Internal, "answer is too large")
		}
		return answer, nil
	}
}

// allow says whether a peer may make another call of a method by now.
func (s *server) allow(id, name string, m Method) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.limits[id]
	if of == nil {
		of = map[string]*rate.Limiter{}
		s.limits[id] = of
	}
	if of[name] == nil {
		of[name] = rate.NewLimiter(rate.Every(m.Every), m.Burst)
	}
	return of[name].Allow()
}
