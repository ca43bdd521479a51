// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// outbox is what a broadcaster sent, as kind and peer.
type outbox map[byte][]string

func newTestBroadcaster(ours func() summary) (*broadcaster, outbox) {
	out := outbox{}
	var mu sync.Mutex
	send := func(peer string, kind byte, _ []byte) {
		mu.Lock()
		defer mu.Unlock()
		out[kind] = append(out[kind], peer)
	}
	b := newBroadcaster(send, ours, func(msg []byte) string { return string(msg[:1]) }, func(total int, wants map[string]int) map[string]int { return wants })
	b.contents = func() []byte { return nil }
	return b, out
}

// TestNewsGoesBothWays: to the neighbours that we chose and to those that chose us lately.
func TestNewsGoesBothWays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours := summary{1}
		b, out := newTestBroadcaster(func() summary { return ours })
		b.setNeighbours([]string{"a", "b"})
		b.announced("c", ours)
		b.announced("a", ours)
		b.spread([][]byte{[]byte("news")}, "b")
		slices.Sort(out[frameMessage])
		if want := []string{"a", "c"}; !slices.Equal(out[frameMessage], want) {
			t.Errorf("sent to %v", out[frameMessage])
		}
		for _, id := range names(1000) {
			b.announced(id, ours)
		}
		if n := len(b.neighbours()); n > 2+maxChoices*2 {
			t.Errorf("%d neighbours when everybody chooses us", n)
		}
		time.Sleep(choiceLife + time.Second)
		synctest.Wait()
		b.announced("d", ours)
		if got := b.neighbours(); !slices.Equal(got, []string{"a", "b", "d"}) {
			t.Errorf("neighbours %v after those that chose us went silent", got)
		}
	})
}

// TestNoisyOriginLeavesRoom: what exceeds its share is announced, seldom, and others are not delayed.
func TestNoisyOriginLeavesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours := summary{1}
		b, out := newTestBroadcaster(func() summary { return ours })
		b.setNeighbours([]string{"a"})
		for i := range 10_000 { // ten seconds of a thousand
			b.spread([][]byte{[]byte("noise")}, "")
			if i%1000 == 0 {
				b.spread([][]byte{[]byte("quiet")}, "")
			}
			time.Sleep(time.Millisecond)
			synctest.Wait()
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := len(out[frameMessage]); n < 10+bulk+10*originRate-5 || n > 10+bulk+10*originRate+5 {
			t.Errorf("%d messages were sent on", n)
		}
		if n := len(out[frameDiffer]); n < 9 || n > 12 {
			t.Errorf("%d times others were told to pull", n)
		}
	})
}

// TestDifferencesThatPass: a neighbour that was only ahead by what is on its way is not asked.
func TestDifferencesThatPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var held atomic.Uint32
		b, out := newTestBroadcaster(func() summary { return summary{byte(held.Load())} })
		b.announced("a", summary{2})
		time.Sleep(grace / 2)
		synctest.Wait()
		held.Store(2)
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := len(out[frameDiffer]); n != 0 {
			t.Errorf("asked %d times", n)
		}
		for range 1000 { // however often it says so
			b.announced("a", summary{3})
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := len(out[frameDiffer]); n != 1 {
			t.Errorf("asked %d times about a difference that lasts", n)
		}
	})
}

// TestOnePullForAll: what one member is being asked for is not asked of the next, and what has come
// is not asked for.
func TestOnePullForAll(t *testing.T) {
	p := newPuller()
	ours, theirs := summary{1}, summary{2}
	p.ours = func() summary { return ours }
	for _, id := range names(3) {
		p.requestFor(id, theirs)
	}
	p.requestFor("other", summary{3})
	p.requestFor("equal", ours)
	if p.peers["equal"] != nil {
		t.Error("asks for what is here")
	}
	now := time.Now()
	if ready, _ := p.due(now); len(ready) != 2 || !slices.Contains(ready, "other") {
		t.Errorf("pulls from %v at once", ready)
	}
	for _, s := range p.peers {
		s.running = false
	}
	ours = theirs
	if ready, _ := p.due(now); len(ready) != 0 {
		t.Errorf("pulls from %v what is here", ready)
	}
}

// TestPaceGoesByBytes: what is new is written to disk, wherever it arrives.
func TestPaceGoesByBytes(t *testing.T) {
	bubble(t, time.Millisecond, func(t *testing.T, g *group) {
		a, evil := g.add("a"), g.add("evil")
		g.swap(a, evil)
		await(t, time.Minute, "they meet", formed(a, evil))
		ways := map[string]func(msg []byte){
			"a frame": func(msg []byte) { a.receive("evil", frameMessage, msg) },
			"a call": func(msg []byte) {
				if err := a.Merge("evil", msg); err != nil {
					t.Error(err)
				}
			},
		}
		for name, send := range ways {
			a.throttle.Wait("evil", mergeBurst) // it has used up its burst
			start, sent := time.Now(), 0
			for range 100 {
				msg := evil.state.publish(make([]byte, maxFrame/2))
				sent += len(msg)
				send(msg)
			}
			if most := mergeRate * mergeBytes * time.Since(start).Seconds() * 1.1; float64(sent) > most {
				t.Errorf("by %s %d bytes are taken in %v", name, sent, time.Since(start))
			}
		}
	})
}

// TestFloodOfAPinnedMember: a member that sends new messages of its own as fast as it can is slowed down, and
// others are served meanwhile.
func TestFloodOfAPinnedMember(t *testing.T) {
	bubble(t, 10*time.Millisecond, func(t *testing.T, g *group) {
		byOrigin := func(o *Options) {
			o.Origin = func(msg []byte) string {
				var e entry
				if err := json.Unmarshal(msg, &e); err != nil {
					t.Error(err)
				}
				return e.Origin
			}
		}
		a, b, evil := g.add("a", byOrigin), g.add("b", byOrigin), g.add("evil", byOrigin)
		g.swap(a, b)
		g.swap(a, evil)
		await(t, time.Minute, "group forms", formed(a, b, evil))
		await(t, time.Minute, "states converge", equal(a, b, evil))
		for range mergeBurst {
			a.throttle.Wait("evil", 1) // it has used up its burst
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			for ctx.Err() == nil {
				a.receive("evil", frameMessage, evil.state.publish([]byte("flood")))
			}
		}()
		before := time.Now()
		held := func() int {
			a.state.mu.Lock()
			defer a.state.mu.Unlock()
			return a.state.upTo["evil"]
		}
		first := held()
		time.Sleep(3 * time.Second)
		if n := held() - first; n > int(1.2*mergeRate*time.Since(before).Seconds()) {
			t.Errorf("%d messages of the flood were merged in %v", n, time.Since(before))
		}
		news := b.state.publish([]byte("news"))
		b.Broadcast(news)
		b.state.mu.Lock()
		number := b.state.upTo["b"]
		b.state.mu.Unlock()
		await(t, 200*time.Millisecond, "another member's news arrives", func() bool {
			a.state.mu.Lock()
			defer a.state.mu.Unlock()
			return a.state.held["b"][number] != nil
		})
		cancel()
		<-done
		await(t, time.Minute, "all agree in the end", equal(a, b, evil))
	})
}

// TestIntroducedByNews: who hears of a newcomer from a neighbour need not pull to know it.
func TestIntroducedByNews(t *testing.T) {
	bubble(t, 10*time.Millisecond, func(t *testing.T, g *group) {
		a, b := g.add("a"), g.add("b")
		g.swap(a, b)
		await(t, time.Minute, "group forms", formed(a, b))
		await(t, time.Minute, "states converge", equal(a, b))
		c := newFakeState(newIntruder(t).identity, nil)
		msg := c.publish([]byte("cluster c"))
		time.Sleep(time.Second) // for a pull that was asked for before they were equal
		before := b.pulled()
		b.receive("a", frameMessage, msg)
		if pin := b.trust.Pins()[1]; pin.ClusterID != "intruder" || pin.Introducer != "a" {
			t.Errorf("pins %+v", b.trust.Pins())
		}
		time.Sleep(time.Second) // in which it would
		if b.pulled() != before {
			t.Error("it pulled")
		}
	})
}
