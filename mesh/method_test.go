// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// TestMethod: a call is bounded in size and number, and its errors tell a peer nothing.
func TestMethod(t *testing.T) {
	g := newGroup(t, nil)
	defer g.end()
	const most = 100
	answer := func(_ context.Context, _ Caller, request []byte) ([]byte, error) {
		switch string(request) {
		case "fail":
			return nil, errors.New("secret reason")
		case "large":
			return make([]byte, most+1), nil
		case "nothing":
			return nil, nil
		}
		return request, nil
	}
	ask := Method{MaxRequest: most, MaxAnswer: most, Every: time.Hour, Burst: 5}
	asks := func(m Method) func(*Options) {
		return func(o *Options) { o.Methods = map[string]Method{"Ask": m} }
	}
	a := g.add("a", asks(Method{MaxRequest: 10 * most, MaxAnswer: most}))
	ask.Serve = answer
	b := g.add("b", asks(ask))
	g.swap(a, b)
	g.swap(a, g.add("c", asks(Method{})))
	g.swap(a, g.add("d", asks(Method{Serve: func(ctx context.Context, _ Caller, _ []byte) ([]byte, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}, Timeout: time.Millisecond})))
	for _, step := range []struct {
		peer, request string
		want          codes.Code
	}{
		{"b", strings.Repeat("x", most), codes.OK},
		{"b", "fail", codes.Unavailable},
		{"b", "large", codes.Internal},
		{"b", "nothing", codes.OK},
		{"b", strings.Repeat("x", most+1), codes.ResourceExhausted},
		{"b", "", codes.OK},
		{"b", "", codes.ResourceExhausted}, // the sixth in a row of those that were served
		{"c", "", codes.Unimplemented},
		{"d", "", codes.Unavailable}, // it takes too long there
	} {
		answer, err := a.Call(t.Context(), step.peer, "Ask", []byte(step.request))
		if status.Code(err) != step.want {
			t.Errorf("%.10q of %s: got %v, want %v", step.request, step.peer, err, step.want)
		}
		if err == nil && step.request != "nothing" && string(answer) != step.request {
			t.Errorf("%.10q of %s: answer %.10q", step.request, step.peer, answer)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("the error tells a peer too much: %v", err)
		}
	}
	if _, err := b.Call(t.Context(), "nobody", "Ask", nil); !errors.Is(err, ErrUnpinned) {
		t.Errorf("a call of a stranger: %v", err)
	}
	if _, err := a.Call(t.Context(), "b", "Ask", make([]byte, 10*most+1)); !errors.Is(err, errOversized) {
		t.Errorf("a request that is too large here: %v", err)
	}
	if _, err := a.Call(t.Context(), "b", "Other", nil); err == nil || !strings.Contains(err.Error(), "Other") {
		t.Errorf("a method that is not in the options: %v", err)
	}
}

// TestNamesAreChecked: what New refuses of protocols and methods names the one that is wrong.
func TestNamesAreChecked(t *testing.T) {
	g := newGroup(t, nil)
	defer g.end()
	a := g.add("a")
	serve := func(context.Context, Caller, []byte) ([]byte, error) { return nil, nil }
	for name, m := range map[string]Method{
		"Pull":      {Serve: serve},
		"":          {Serve: serve},
		"a/b":       {Serve: serve},
		"Request":   {MaxRequest: maxDigest + 1},
		"Answer":    {MaxAnswer: 64<<10 + 1},
		"Negative":  {MaxAnswer: -1},
		"Slow":      {Timeout: rpcTimeout + 1},
		"Burst":     {Burst: 1},
		"Every":     {Every: 1},
		"Unhurried": {Burst: -1, Every: 1},
	} {
		o := a.options
		o.Methods = map[string]Method{name: m}
		if _, err := New(o); !errors.Is(err, errOptions) || !strings.Contains(err.Error(), `method "`+name+`"`) {
			t.Errorf("method %q: %v", name, err)
		}
	}
	handler := Handler{Serve: serveNothing}
	for name, h := range map[string]Handler{
		"h2": handler, "roster-packet/1": handler, "roster-stream/1": handler, "roster-raft/1": handler,
		"": handler, strings.Repeat("x", 256): handler, "nothing/1": {},
	} {
		o := a.options
		o.Protocols = map[string]Handler{name: h}
		if _, err := New(o); !errors.Is(err, errOptions) || !strings.Contains(err.Error(), `protocol "`+name+`"`) {
			t.Errorf("protocol %q: %v", name, err)
		}
	}
}

// TestMergeKeepsItsOwnCopy: what the caller does with its buffer then changes nothing that is sent on.
func TestMergeKeepsItsOwnCopy(t *testing.T) {
	bubble(t, time.Millisecond, func(t *testing.T, g *group) {
		a, b, c := g.add("a"), g.add("b"), g.add("c")
		g.swap(a, b)
		g.swap(b, c)
		await(t, time.Minute, "group forms", formed(a, b, c))
		await(t, time.Minute, "states converge", equal(a, b, c))
		rejected := c.state.rejected()
		buffer := bytes.Clone(a.state.publish([]byte("news")))
		if err := b.Merge("a", buffer); err != nil {
			t.Fatal(err)
		}
		clear(buffer)
		buffer = bytes.Clone(a.state.publish([]byte("more")))
		a.Send("b", buffer)
		clear(buffer)
		await(t, time.Minute, "all have it", equal(a, b, c))
		if n := b.state.rejected() + c.state.rejected() - rejected; n != 0 {
			t.Errorf("%d messages were rejected", n)
		}
	})
}

// TestMergeAndSendCheckWhatTheyAreGiven: nothing is merged of who is no peer, and nothing sent that no frame can carry.
func TestMergeAndSendCheckWhatTheyAreGiven(t *testing.T) {
	bubble(t, time.Millisecond, func(t *testing.T, g *group) {
		a, b := g.add("a"), g.add("b")
		g.swap(a, b)
		await(t, time.Minute, "they meet", formed(a, b))
		msg := a.state.publish([]byte("news"))
		for _, nobody := range []string{"", "stranger", "b"} {
			if err := b.Merge(nobody, msg); !errors.Is(err, ErrUnpinned) {
				t.Errorf("of %q: %v", nobody, err)
			}
		}
		before := a.dropped(dropOversized)
		a.Send("b", make([]byte, maxInline+1))
		synctest.Wait()
		if a.dropped(dropOversized) != before+1 || b.dropped(dropOversized) != 0 {
			t.Errorf("too long: dropped %d here and %d there", a.dropped(dropOversized)-before, b.dropped(dropOversized))
		}
	})
}

// TestSlowCallsKeepNobodyFromPulling: a peer that has as many calls under way as it may pulls nevertheless.
func TestSlowCallsKeepNobodyFromPulling(t *testing.T) {
	bubble(t, time.Millisecond, func(t *testing.T, g *group) {
		slow := func(o *Options) {
			o.Methods["Slow"] = Method{Timeout: rpcTimeout, Serve: func(ctx context.Context, _ Caller, _ []byte) ([]byte, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}}
		}
		a, b := g.add("a", slow), g.add("b", slow)
		g.swap(a, b)
		await(t, time.Minute, "they meet", formed(a, b))
		await(t, time.Minute, "states converge", equal(a, b))
		for range maxPeerCalls {
			go func() { _, _ = a.Call(t.Context(), "b", "Slow", nil) }()
		}
		time.Sleep(time.Second)
		b.state.publish([]byte("news"))
		if err := a.Pull(t.Context(), "b"); err != nil || !equal(a, b)() {
			t.Errorf("pull: %v", err)
		}
		if _, err := a.Call(t.Context(), "b", "Greet", nil); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("one call too many: %v", err)
		}
	})
}
