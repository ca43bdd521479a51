// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package inforce

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/syncrules/engine/place"
)

// scopes are n namespaces, from the first on.
func scopes(first, n int) (out []place.Scope) {
	for i := range n {
		out = append(out, place.Scope{GVK: schema.GroupVersionKind{Version: "v1", Kind: "Secret"}, Namespace: fmt.Sprint("ns-", first+i)})
	}
	return out
}

func TestRulesOfOneAuthor(t *testing.T) {
	t.Parallel()
	var p places
	for i := range MaxRules {
		if x := p.take(&Rule{Author: "bad", Views: scopes(0, 1)}); x != None {
			t.Fatalf("rule %d has no place: %s", i, x.Text("bad", MaxAllViews))
		}
	}
	if x := p.take(&Rule{Author: "bad", Views: nil}); x != Rules {
		t.Errorf("one more has %d", x)
	}
	if x := p.take(&Rule{Author: "good", Views: scopes(0, 1)}); x != None {
		t.Errorf("a rule of another author has %d", x)
	}
}

// 100 rules of 256 namespaces would be 25,600 watches. What does not fit takes no place from what does.
func TestViewsOfOneAuthor(t *testing.T) {
	t.Parallel()
	var p places
	in := 0
	for i := range 100 {
		switch x := p.take(&Rule{Author: "bad", Views: scopes(256*i, 256)}); x {
		case None:
			in++
		case Views, Rules, AllRules, AllViews, Undecided:
			if x != Views || in != MaxViews/256 {
				t.Fatalf("rule %d has %d after %d", i, x, in)
			}
		}
	}
	if x := p.take(&Rule{Author: "bad", Views: scopes(0, 256)}); x != None {
		t.Errorf("a rule that opens no other watches has %d", x)
	}
	if x := p.take(&Rule{Author: "bad", Views: scopes(1e6, 1)}); x != Views {
		t.Errorf("a rule that opens one more has %d", x)
	}
	for range MaxRules {
		p.take(&Rule{Author: "bad", Views: scopes(2e6, 256)})
	}
	if x := p.take(&Rule{Author: "bad", Views: nil}); x != Rules {
		t.Errorf("after many that have no place, one more has %d", x)
	}
	if x := p.take(&Rule{Author: "good", Views: scopes(1e6, 256)}); x != None {
		t.Errorf("a rule of another author has %d", x)
	}
}

func TestTexts(t *testing.T) {
	t.Parallel()
	name := strings.Repeat("x", 63)
	for x, want := range map[Excess]string{Rules: "256 rules of cluster x", Views: "2048 watches", AllRules: "4096 rules", AllViews: "8192 watches"} {
		if text := x.Text(name, MaxAllViews); !strings.Contains(text, want) || !strings.Contains(text, "older rules come first") || len(text) > 440 {
			t.Errorf("%d: %s", x, text)
		}
	}
	if None.Text("bad", MaxAllViews) != "" {
		t.Error("nothing has a text")
	}
}

// A rule that does not fit is looked at without a copy of what others have taken: there may be hundreds of them, each time
// that any rule changes.
func TestRulesThatDoNotFitAreCheap(t *testing.T) {
	var p places
	for i := range MaxViews / 256 {
		p.take(&Rule{Author: "bad", Views: scopes(256*i, 256)})
	}
	p.taken["bad"].rules -= 101
	over := &Rule{Author: "bad", Views: scopes(1e6, 256)}
	if n := testing.AllocsPerRun(100, func() { p.take(over) }); n > 2 {
		t.Errorf("it makes %v allocations", n)
	}
	if x := p.take(&Rule{Author: "bad", Views: scopes(0, 256)}); x != None {
		t.Errorf("after those, one that opens no other watches has %d", x)
	}
}
