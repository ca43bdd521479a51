// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// TestPanic: a panic fails its call or ends its connection. It is counted and logged, without what it says.
func TestPanic(t *testing.T) {
	bubble(t, time.Millisecond, func(t *testing.T, g *group) {
		var out syncBuffer
		serves := func(o *Options) {
			o.Methods["Crash"] = Method{Serve: func(_ context.Context, _ Caller, request []byte) ([]byte, error) { return request[10:], nil }}
			o.Protocols = map[string]Handler{"crash/1": {Serve: func(context.Context, Caller, net.Conn) { panic("secret") }}}
		}
		a, b := g.add("a", serves), g.add("b", serves, func(o *Options) { o.Log = textLogger(&out) })
		g.swap(a, b)
		await(t, time.Minute, "they meet", formed(a, b))
		if _, err := a.Call(t.Context(), "b", "Crash", nil); status.Code(err) != codes.Unavailable {
			t.Errorf("call: %v", err)
		}
		conn, err := a.Dial(t.Context(), "b", "crash/1")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("connection: %v", err)
		}
		if n := b.dropped(dropPanic); n != 2 {
			t.Errorf("counted %d", n)
		}
		log := out.String()
		for _, want := range []string{"name=Crash", "name=crash/1", "slice bounds out of range", "cluster=a"} {
			if !strings.Contains(log, want) {
				t.Errorf("the log lacks %q", want)
			}
		}
		if strings.Contains(log, "secret") {
			t.Error("the log tells what the panic says")
		}
		if _, err := a.Call(t.Context(), "b", "Greet", nil); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	})
}
