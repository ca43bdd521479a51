// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"fmt"
	"testing"
)

// An origin that skips a number and signs no head, which would close its deltas, has its neighbours repeat what they
// hold of it for a while only, also when it goes on to skip numbers and to publish.
func TestOriginWithoutHeads(t *testing.T) {
	const held = 300
	liar := newReplica(t, "liar", 1)
	a, b := newReplica(t, "a", 1, "liar", "b"), newReplica(t, "b", 1, "liar", "a")
	publish(t, liar, rule("withheld"), Live, "x")
	for i := range held {
		msg := publish(t, liar, rule(fmt.Sprint("r", i)), Live, "x")
		merge(t, a, msg...)
		merge(t, b, msg...)
	}
	sent, asked := 0, 0
	const rounds = 200
	for i := range rounds {
		publish(t, liar, rule("withheld"), Live, fmt.Sprint(i))
		to, from := a, b
		if i%2 > 0 {
			to, from = b, a
		}
		if _, pull := merge(t, from, publish(t, liar, rule("new"), Live, fmt.Sprint(i))...); pull {
			asked++
		}
		err := from.Delta(to.Digest(), func(msg []byte) error {
			sent++
			_, _, err := to.Merge(msg, from.self)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if sent > 20*held || asked > rounds/4 {
		t.Errorf("%d rounds: %d messages sent, asked at once %d times", rounds, sent, asked)
	}
	t.Logf("%d rounds: %d messages sent, asked at once %d times", rounds, sent, asked)
	// Once it says what it held back all agree.
	pullFrom(t, a, liar)
	for _, msg := range liar.Complete() {
		merge(t, a, msg)
	}
	for range 3 {
		pullFrom(t, a, liar)
		pullFrom(t, b, a)
	}
	if !b.Progress("liar").Complete {
		t.Errorf("progress: %+v, of %+v", b.Progress("liar"), a.Progress("liar"))
	}
}

// An origin whose heads promise what nobody has is asked for it a few times and then no more, however many it signs.
func TestHeadsThatNobodyServes(t *testing.T) {
	a, b := newReplica(t, "a", 1, "liar", "b"), newReplica(t, "b", 1, "liar", "a")
	liar := newReplica(t, "liar", 1)
	for i := range 50 {
		for _, r := range []*Replica{a, b} {
			merge(t, r, publish(t, liar, rule(fmt.Sprint("r", i)), Live, "x")...)
		}
	}
	sent, asked := 0, 0
	const rounds = 200
	for i := range uint64(rounds) {
		head := signHead(testKey("liar"), Head{Origin: "liar", Epoch: 1, Sequence: 1000 * (i + 1), Set: [32]byte{byte(i)}})
		to, from := a, b
		if i%2 > 0 {
			to, from = b, a
		}
		if _, pull := merge(t, from, head.msg); pull {
			asked++
		}
		err := from.Delta(to.Digest(), func(msg []byte) error {
			sent++
			_, pull, err := to.Merge(msg, from.self)
			if pull {
				asked++
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if sent > 2*rounds || asked > rounds/10 {
		t.Errorf("%d rounds: %d messages sent, asked at once %d times", rounds, sent, asked)
	}
	t.Logf("%d rounds: %d messages sent, asked at once %d times", rounds, sent, asked)
}
