// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// pile is a Stock of a group: whoever is named after a cluster was admitted by it, as bad-1 by bad, and all others by the own one. Nobody
// knows any more who admitted those that are gone.
type pile struct {
	*Stock
	now     time.Time
	ids     []string
	authors []string // of rules; without any all rules are the own cluster's
	gone    map[string]bool
}

func newPile(most int64, ids ...string) *pile {
	p := &pile{now: time.Unix(0, 0), ids: ids, gone: map[string]bool{"nobody": true}}
	p.Stock = NewStock(most, "own", p.parentOf, func() []string { return p.authors }, func() []string { return p.ids })
	return p
}

func (p *pile) parentOf(id string) string {
	if p.gone[id] {
		return ""
	}
	if i := strings.LastIndex(id, "-"); i > 0 {
		return id[:i]
	}
	return "own"
}

// fills has own rules bring pieces of a cluster's as long as there is room for one, and returns how much that is.
func (p *pile) fills(owner string, piece int64) (sum int64) { return p.fillsBy("", owner, piece) }

// fillsBy is fills of another cluster's rules.
func (p *pile) fillsBy(author, owner string, piece int64) (sum int64) {
	by := By{author, owner}
	for piece <= p.Room(by, p.now) {
		p.Add(by, piece)
		sum += piece
	}
	return sum
}

// Whatever a member brings itself, or by clusters that it invents, one after the other, in long chains, or in turn with their end, it has
// half. Another one has an equal part, and who comes after has some of the rest.
func TestInventionsHaveHalfOfTheStock(t *testing.T) {
	const most, piece = 1 << 20, 100
	p := newPile(most, "bad", "good", "other")
	sum, name := int64(most/10), "bad"
	p.Add(By{Owner: "bad"}, sum)
	for i := range 200 {
		name = fmt.Sprintf("bad-%d", i)
		if i%2 == 1 {
			name = "bad" + strings.Repeat("-1", i+1)
		}
		p.ids = append(p.ids, name)
		p.now = p.now.Add(time.Second)
		sum += p.fills(name, piece)
		if i%4 == 0 { // it led to nobody
			p.gone[name] = true
		}
	}
	if sum < most/2-piece || sum > most/2+piece {
		t.Errorf("one member brought %d of %d", sum, most)
	}
	if good := p.fills("good", piece); good < most/4-piece {
		t.Errorf("an honest one brought %d of %d", good, most)
	}
	if other := p.fills("other", piece); other < most/10 {
		t.Errorf("another one brought %d of %d", other, most)
	}
	if p.all > most {
		t.Errorf("there are %d, and %d is most", p.all, most)
	}
}

// Behind one hub clusters share as siblings of each other do: none of them has more than half, and a cluster whose equal part is larger than what
// is left has that.
func TestAHubIsNoBranchThatIsLimited(t *testing.T) {
	const most, piece = 1 << 20, 100
	p := newPile(most, "hub", "hub-a", "hub-b", "hub-c")
	if a := p.fills("hub-a", piece); a < most/2-piece || a > most/2+piece {
		t.Errorf("the first one brought %d of %d", a, most)
	}
	for _, of := range []string{"hub-b", "hub-c"} {
		if n := p.fills(of, piece); n < most/8 {
			t.Errorf("%s brought %d of %d", of, n, most)
		}
	}
}

// What goes leaves room at once, also where somebody else admitted who brought it than when it came; and those whom nobody knows are one.
func TestStockThatGoes(t *testing.T) {
	const most, piece = 1 << 20, 100
	p := newPile(most, "a", "b")
	sum := p.fills("a", piece)
	p.Add(By{Owner: "a"}, -sum)
	if room := p.Room(By{Owner: "a"}, p.now); room != most || len(p.of) != 0 {
		t.Errorf("there is room for %d of %d, and %d have something", room, most, len(p.of))
	}
	for range 100 {
		p.fills("nobody", piece)
	}
	if room := p.Room(By{Owner: "b"}, p.now); room < most/2-piece {
		t.Errorf("beside those that nobody knows there is room for %d of %d", room, most)
	}
	p.Add(By{Owner: "b"}, 10*most) // it was here before there was a limit
	if room := p.Room(By{Owner: "b"}, p.now); room > 0 {
		t.Errorf("there is room for %d", room)
	}
}

// Without anybody to ask, all were admitted by this cluster.
func TestStockWithoutATree(t *testing.T) {
	s := NewStock(1000, "own", nil, func() []string { return nil }, func() []string { return []string{"a", "b"} })
	s.Add(By{Owner: "a"}, 600)
	if a, b := s.Room(By{Owner: "a"}, time.Time{}), s.Room(By{Owner: "b"}, time.Time{}); a > 0 || b != 400 {
		t.Errorf("there is room for %d and %d", a, b)
	}
}

// One member's rules have half at most, whoever's objects they select, and also with rules of clusters that it invents. What is left is there for
// rules of others, and for objects of the same clusters.
func TestRulesOfOneMemberHaveHalfOfTheStock(t *testing.T) {
	const most, piece = 1 << 20, 100
	for _, owners := range [][]string{{"good"}, {"good", "other"}} {
		p := newPile(most, "bad", "good", "other")
		p.authors = []string{"bad", "good"}
		sum := int64(0)
		for i := range 50 {
			name := fmt.Sprintf("bad-%d", i)
			p.ids, p.authors, p.now = append(p.ids, name), append(p.authors, name), p.now.Add(time.Minute)
			for _, owner := range owners {
				sum += p.fillsBy("bad", owner, piece) + p.fillsBy(name, owner, piece)
			}
		}
		if sum > most/2+piece {
			t.Errorf("rules of one member brought %d of %d", sum, most)
		}
		if n := p.fillsBy("good", "good", piece); n < most/8 {
			t.Errorf("beside them those of an honest one brought %d of %d of the same objects", n, most)
		}
		if n := p.fillsBy("", "good", piece); n < most/16 {
			t.Errorf("beside both own rules brought %d of %d", n, most)
		}
	}
}

// Where one cluster has all rules, it has all of the stock. What it selects of one member, and of what that invents, leaves room for others also then.
func TestOneAuthorHasAllOfTheStock(t *testing.T) {
	const most, piece = 1 << 20, 100
	p := newPile(most, "hub", "hub-bad", "hub-good", "hub-other")
	p.authors = []string{"hub"}
	sum := int64(0)
	for i := range 20 {
		p.ids, p.now = append(p.ids, fmt.Sprint("hub-bad-", i)), p.now.Add(time.Minute)
		sum += p.fillsBy("hub", fmt.Sprint("hub-bad-", i), piece)
	}
	if sum < most/2-piece || sum > most/2+piece {
		t.Errorf("what one member invented brought %d of %d", sum, most)
	}
	for range 20 {
		sum += p.fillsBy("hub", "hub-good", piece) + p.fillsBy("hub", "hub-other", piece)
	}
	if sum < most*9/10 || p.all > most {
		t.Errorf("all of them brought %d of %d", sum, most)
	}
}

// Nothing is kept of those that have nothing any more.
func TestStockForgets(t *testing.T) {
	p := newPile(1000, "a", "b")
	p.authors = []string{"b"}
	for _, by := range []By{{"", "a"}, {"b", "a"}, {"b", "gone"}} {
		p.Add(by, 900)
		p.Room(by, p.now)
		p.Add(by, -900)
	}
	if len(p.of)+len(p.known)+len(p.used) > 0 || p.all != 0 {
		t.Errorf("%v, %v and %v are kept", p.of, p.known, p.used)
	}
}
