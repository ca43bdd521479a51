// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"github.com/roster-mesh/roster/mesh/meshtest"
	"github.com/roster-mesh/roster/mesh/pace"
)

// TestJoinsTakeTurns: members that cannot be reached keep their slot for long
// and come first by name; each of the others gets its turn all the same.
func TestJoinsTakeTurns(t *testing.T) {
	j := newJoiner()
	j.present = func() int { return 0 }
	now := time.Now()
	ids := names(10 * maxJoins)
	tried := map[string]int{}
	for range 12 {
		ready, _ := j.due(slices.Clone(ids), now)
		now = now.Add(dialTimeout)
		for _, id := range ready {
			tried[id]++
			s := j.members[id]
			s.running, s.retry = false, now.Add(100*time.Millisecond)
			delete(j.busy, id)
		}
	}
	for _, id := range ids {
		if tried[id] == 0 {
			t.Errorf("%s never had a turn", id)
		}
	}
}

// TestInventionsLeaveRoomForPullsAndJoins: clusters that one member invented have all places; one that another member admitted gets one
// beside them, and no invented one does.
func TestInventionsLeaveRoomForPullsAndJoins(t *testing.T) {
	halves := func(total int, wants map[string]int) map[string]int {
		shares := map[string]int{}
		for id := range wants {
			shares[id] = total / 2
			if id != "honest" {
				shares[id] = total / len(wants)
			}
		}
		return shares
	}
	j, p, now := newJoiner(), newPuller(), time.Now()
	j.present, j.share = func() int { return 0 }, halves
	p.share, p.ours = halves, func() summary { return summary{} }
	invented := names(maxJoins)
	j.due(slices.Clone(invented), now)
	if ready, _ := j.due([]string{"more", "honest"}, now.Add(time.Minute)); !slices.Equal(ready, []string{"honest"}) {
		t.Errorf("joined beside inventions: %v", ready)
	}
	for _, id := range invented[:maxPulls] {
		p.request(id)
	}
	p.due(now)
	p.request("more")
	p.request("honest")
	if ready, _ := p.due(now.Add(time.Second)); !slices.Equal(ready, []string{"honest"}) {
		t.Errorf("pulled beside inventions: %v", ready)
	}
}

func TestKnockEndsTheWait(t *testing.T) {
	j := newJoiner()
	j.present = func() int { return 0 }
	j.contacted("stranger")
	now := time.Now()
	j.members["a"] = &joinState{id: "a", ended: now, retry: now.Add(pace.MaxBackoff)}
	j.contacted("a")
	if ready, wait := j.due([]string{"a"}, now); len(ready) != 0 || wait > minRejoin {
		t.Errorf("just after an attempt: %v, next in %v", ready, wait)
	}
	if ready, _ := j.due([]string{"a"}, now.Add(minRejoin)); len(ready) != 1 {
		t.Error("not tried although it knocked")
	}
}

// TestKickIsForOneMember: a member that says every moment that it has moved ends no other wait than its own.
func TestKickIsForOneMember(t *testing.T) {
	g := newGroup(t, nil)
	defer g.end()
	m, later := g.add("a"), time.Now().Add(time.Hour)
	waiting := func(id string) [3]bool {
		l, p, j := m.transport.packets.queue(id), m.pulls.peers[id], m.joins.members[id]
		return [3]bool{l.retry.Equal(later), p.retry.Equal(later) && p.fruitless != (fruitlessPull{}), j.retry.Equal(later)}
	}
	for _, id := range []string{"moved", "gone"} {
		m.transport.packets.queue(id).retry = later
		m.pulls.mu.Lock()
		m.pulls.peers[id] = &pullState{retry: later, fruitless: fruitlessPull{at: later}}
		m.pulls.mu.Unlock()
		m.joins.mu.Lock()
		m.joins.members[id] = &joinState{id: id, retry: later}
		m.joins.mu.Unlock()
	}
	m.RetryNow("moved")
	if got := waiting("moved"); got != [3]bool{} {
		t.Errorf("the member that moved is waited for: %v", got)
	}
	if got := waiting("gone"); got != [3]bool{true, true, true} {
		t.Errorf("another one is not waited for any more: %v", got)
	}
}

// TestUnequalForEver: two members that cannot become equal do not pull from
// each other all the time, and a change is pulled soon.
func TestUnequalForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPuller()
		ours, pulls, brings := summary{1}, 0, 0
		p.pull = func(context.Context, string) (pullResult, error) { pulls++; return pullResult{fresh: brings}, nil }
		p.alive = func() []string { return []string{"a"} }
		p.ours = func() summary { return ours }
		p.result = func(string) {}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); p.run(ctx) }()
		ask := func(theirs summary) { p.requestFor("a", theirs); time.Sleep(announceInterval); synctest.Wait() }
		for range 100 {
			ask(summary{2})
		}
		if pulls != 1 {
			t.Errorf("%d pulls while nothing changed", pulls)
		}
		pulls = 0
		for i := range 720 { // an hour of lies
			ask(summary{3, byte(i), byte(i >> 8)})
		}
		if pulls > 60 {
			t.Errorf("%d pulls in an hour from a member that has nothing for us", pulls)
		}
		pulls, brings, ours = 0, 1, summary{9}
		ask(summary{2})
		ask(summary{2})
		if pulls == 0 {
			t.Error("not pulled within seconds after a change here")
		}
		cancel()
		<-done
	})
}

// TestWasteIsPaidFor: a member whose deltas bring a little that is new and much that is not is asked less often, and
// what it promises is not asked of all others.
func TestWasteIsPaidFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPuller()
		var mu sync.Mutex
		pulls := map[string]int{}
		says := byte(0)
		p.pull = func(_ context.Context, id string) (pullResult, error) {
			mu.Lock()
			defer mu.Unlock()
			pulls[id]++
			got := pullResult{fresh: 1, wasted: map[string]int{"liar": 8 << 20}[id]}
			if id == "honest" && pulls[id] == 1 { // it compared everything after an outage
				got.wasted = 30 << 20
			}
			return got, nil
		}
		p.alive = func() []string { return []string{"liar", "honest"} }
		p.ours = func() summary { return summary{1} }
		p.result = func(string) {}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); p.run(ctx) }()
		for range 600 { // a minute
			says++
			p.requestFor("liar", summary{2, says})
			p.requestFor("honest", summary{3, says})
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
		}
		if pulls["liar"] > 13 || pulls["honest"] < 500 {
			t.Errorf("pulls in a minute: %v", pulls)
		}
		cancel()
		<-done
	})
}

func TestPullsAreFirstComeFirstServed(t *testing.T) {
	p := newPuller()
	now := time.Now()
	ids := names(3 * maxPulls)
	for i, id := range ids {
		p.peerLocked(id).wantLocked(now.Add(time.Duration(-i) * time.Second))
	}
	ready, _ := p.due(now)
	slices.Reverse(ids)
	if !slices.Equal(ready, ids[:maxPulls]) {
		t.Errorf("first are %v", ready)
	}
}

// TestPullsDoNotHoldUpOthers: members whose pulls last as long as they may, be it that they say that they hold what
// others hold or that there are many of them, keep nobody from being pulled from.
func TestPullsDoNotHoldUpOthers(t *testing.T) {
	for name, c := range map[string]struct {
		liars int
		claim byte
	}{
		"the same content": {1, 2},
		"every slot":       {maxPulls, 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPuller()
				var pulled atomic.Bool
				p.pull = func(ctx context.Context, id string) (pullResult, error) {
					if id == "honest" {
						pulled.Store(true)
						return pullResult{fresh: 1}, nil
					}
					ctx, cancel := context.WithTimeout(ctx, rpcTimeout)
					defer cancel()
					<-ctx.Done()
					return pullResult{}, errUseless
				}
				p.alive = func() []string { return nil }
				p.ours = func() summary { return summary{1} }
				p.result = func(string) {}
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() { defer close(done); p.run(ctx) }()
				for _, claim := range []byte{9, c.claim} { // the second one once the pull runs
					for i, id := range names(c.liars) {
						p.requestFor(id, summary{claim, byte(i)})
					}
					synctest.Wait()
				}
				p.requestFor("honest", summary{2})
				synctest.Wait()
				if name == "every slot" && pulled.Load() {
					t.Error("more than maxPulls run at a time")
				}
				time.Sleep(maxHold)
				synctest.Wait()
				if !pulled.Load() {
					t.Error("nothing was pulled from an honest member")
				}
				cancel()
				<-done
			})
		})
	}
}

// deltaStream is a delta of any length.
type deltaStream struct {
	grpc.ClientStream
	next func() ([]byte, error)
}

func (s deltaStream) RecvMsg(m any) (err error) {
	*m.(*[]byte), err = s.next()
	return err
}

func TestPullWithoutProgress(t *testing.T) {
	message := make([]byte, 64<<10)
	for name, c := range map[string]struct {
		verdict func(n int) verdict
		most    int
		want    error
	}{
		"all rejected":   {func(int) verdict { return rejected }, maxRejected, errUseless},
		"all known":      {func(int) verdict { return known }, maxUseless/len(message) + 1, errUseless},
		"all fresh":      {func(int) verdict { return fresh }, maxDelta/len(message) + 1, errDelta},
		"some are fresh": {func(n int) verdict { return []verdict{fresh, known, rejected}[n%3] }, maxDelta/len(message) + 1, errDelta},
	} {
		n := 0
		each := func([]byte) verdict { n++; return c.verdict(n) }
		msg := message
		if name == "all rejected" {
			msg = []byte("x")
		}
		err := receive(deltaStream{next: func() ([]byte, error) { return msg, nil }}, each, func(error) {})
		if !errors.Is(err, c.want) || n > c.most {
			t.Errorf("%s: %v after %d messages", name, err, n)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, abort := context.WithCancelCause(t.Context())
		start := time.Now()
		err := receive(deltaStream{next: func() ([]byte, error) { <-ctx.Done(); return nil, io.ErrUnexpectedEOF }}, nil, abort)
		if err == nil || !errors.Is(context.Cause(ctx), errStalled) || time.Since(start) != pullPatience {
			t.Errorf("a silent member: %v after %v", err, time.Since(start))
		}
	})
}

// TestDigestsBeyondAFrame: members whose digests fit no frame get equal long
// before the next push/pull.
func TestDigestsBeyondAFrame(t *testing.T) {
	bubble(t, 10*time.Millisecond, func(t *testing.T, g *group) {
		a, b := g.add("a"), g.add("b")
		for _, m := range []*member{a, b} {
			m.state.mu.Lock()
			for i := range 1200 { // as if that many origins were known
				m.state.upTo[fmt.Sprintf("%060d", i)] = 0
			}
			m.state.mu.Unlock()
		}
		g.swap(a, b)
		await(t, time.Minute, "they meet", formed(a, b))
		await(t, time.Minute, "states converge", equal(a, b))
		for range 2 * bulk {
			a.state.publish([]byte("unheard"))
			b.state.publish([]byte("unheard"))
		}
		await(t, 2*announceInterval, "both pull", equal(a, b))
		time.Sleep(time.Second) // for a pull that was asked for just before they were equal
		pulled := func() (n float64) {
			for _, m := range []*member{a, b} {
				n += float64(m.pulled())
			}
			return n
		}
		before := pulled()
		time.Sleep(time.Minute)
		if n := pulled() - before; n > 0 {
			t.Errorf("%v pulls between equal members", n)
		}
	})
}

// TestBlackHoles: dials that lead nowhere do not keep others waiting.
func TestBlackHoles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, meshtest.NewNetwork(time.Millisecond))
		a := g.add("a")
		var stuck atomic.Int32
		ctx, cancel := context.WithCancel(t.Context())
		tr := newTransport("a", a.transport.dialer, a.metrics)
		tr.dialer = &dialer{
			network: hole{}, auth: a.transport.dialer.auth, metrics: a.metrics,
			endpoints: func(string) []string { return []string{"nowhere"} }, report: func(string, error) { stuck.Add(1) }, budget: a.transport.dialer.budget,
		}
		done := make(chan struct{})
		go func() { defer close(done); tr.run(ctx) }()
		for i := range 4 * maxRedials {
			tr.packets.queue(fmt.Sprint(i)).failed = true
			tr.packets.ensure(fmt.Sprint(i))
		}
		synctest.Wait()
		if n := len(tr.requests); n != 0 {
			t.Errorf("%d redials wait among the others", n)
		}
		untried := 0
		for i := range 4 * maxRedials { // which ones depends on who runs first
			l := tr.packets.queue(fmt.Sprint(i))
			l.mu.Lock()
			if l.redial.Delay() != 0 {
				t.Error("a dial that was not tried counts as failed")
			}
			if !l.dialing {
				untried++
			}
			l.mu.Unlock()
		}
		if untried == 0 {
			t.Error("every dial was tried")
		}
		time.Sleep(packetDialTimeout + time.Millisecond)
		synctest.Wait()
		if n := stuck.Load(); n != maxRedials {
			t.Errorf("%d dials ended in time, not %d", n, maxRedials)
		}
		cancel()
		<-done
		g.end()
		time.Sleep(time.Minute)
	})
}

// hole is a network that answers nothing.
type hole struct{ TCP }

func (hole) Dial(ctx context.Context, _ string) (net.Conn, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestJoinErrorIsOneLine(t *testing.T) {
	const addr = "[fd00::1]:7946"
	err := errors.New("1 error occurred:\n\t* failed to join " + addr + ": remote error: tls: bad certificate\n\n")
	if got := joinError(err, addr); !errors.Is(got, errNotKnown) {
		t.Errorf("bad certificate: %v", got)
	}
	err = errors.New("1 error occurred:\n\t* failed to join " + addr + ": dial 10.0.0.1:1: refused\ndial 10.0.0.2:1: refused\n\n")
	if got := oneLine(joinError(err, addr)); got != "dial 10.0.0.1:1: refused; dial 10.0.0.2:1: refused" || strings.Contains(got, "\n") {
		t.Errorf("got %q", got)
	}
}
