// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"context"
	"fmt"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// A probe of memberlist that is under way at Shutdown waits for its own
		// deadline; the library has no way to end it.
		goleak.IgnoreAnyFunction("github.com/hashicorp/memberlist.(*Memberlist).probeNode"),
	)
}

// deadline is for what should take milliseconds, on a busy machine.
const deadline = 60 * time.Second

func TestGroupForms(t *testing.T) {
	for _, n := range []int{2, 3, 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			g := newGroup(t, nil)
			defer g.end()
			var members []*member
			for _, name := range names(n) {
				members = append(members, g.add(name))
			}
			for i, a := range members {
				for _, b := range members[i+1:] {
					g.swap(a, b)
				}
			}
			t.Logf("%d members formed after %v", n, await(t, deadline, "group forms", formed(members...)))
			t.Logf("converged after %v", await(t, deadline, "states converge", equal(members...)))
			for _, m := range members {
				m.Broadcast(m.state.publish([]byte("hello from " + m.name)))
			}
			t.Logf("spread after %v", await(t, deadline, "messages spread", equal(members...)))
		})
	}
}

func TestIntroduction(t *testing.T) {
	g := newGroup(t, nil)
	defer g.end()
	one, two, three := g.add("one"), g.add("two"), g.add("three")
	g.swap(one, two)
	await(t, deadline, "one and two meet", formed(one, two))
	g.swap(three, one)
	t.Logf("formed after %v", await(t, deadline, "three, which swapped with one only, is in the group", formed(one, two, three)))
	await(t, deadline, "states converge", equal(one, two, three))
	for _, pair := range [][2]*member{{two, three}, {three, two}} {
		var found bool
		for _, pin := range pair[0].trust.Pins() {
			if pin.ClusterID == pair[1].name {
				found = true
				if pin.Introducer != "one" {
					t.Errorf("%s pinned %s through %q, not one", pair[0].name, pin.ClusterID, pin.Introducer)
				}
			}
		}
		if !found {
			t.Errorf("%s has no pin for %s", pair[0].name, pair[1].name)
		}
	}
	answer, err := two.Call(context.Background(), "three", "Greet", nil)
	if err != nil || string(answer) != "to two from three" {
		t.Errorf("answer %q, %v", answer, err)
	}
}
