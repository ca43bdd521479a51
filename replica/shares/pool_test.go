// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package shares

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// TestPool: there is never more than the total, nobody within its share gives way, and who asks gets what it may have.
func TestPool(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parents := map[string]string{"hub": "me", "bad": "me"}
		ids := []string{"hub", "bad"}
		for i := range rapid.IntRange(1, 8).Draw(t, "clusters") {
			id := fmt.Sprint("c", i)
			parents[id] = rapid.SampledFrom(ids).Draw(t, "by")
			ids = append(ids, id)
		}
		p := Pool{Total: rapid.IntRange(1, 5000).Draw(t, "total"), Root: "me", Parent: by(parents)}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			id, wants := rapid.SampledFrom(append(ids, "me")).Draw(t, "id"), rapid.IntRange(0, 2000).Draw(t, "wants")
			all := map[string]int{}
			for _, other := range ids {
				all[other] = p.Used(other)
			}
			if all[id] = wants; id == "me" {
				delete(all, id)
			}
			shares, slack := Of(p.Total, "me", by(parents), all), p.Total/staleness+1
			asked := 0
			ok := p.Make(id, wants, func(other string, most int) {
				asked++
				if most < min(p.Used(other), shares[other])-slack || other == id {
					t.Fatalf("%s, which has %d of %d, is to keep %d for %s", other, p.Used(other), shares[other], most, id)
				}
				p.Set(other, most)
			})
			switch {
			case !ok && asked > 0:
				t.Fatalf("%d clusters gave way, and there is no room for %s", asked, id)
			case !ok && (id == "me" || wants < shares[id]-slack):
				t.Fatalf("%s may have %d, and does not get %d", id, shares[id], wants)
			case ok:
				p.Set(id, wants)
			case wants < p.Used(id):
				p.Set(id, wants)
			}
			if p.Sum() > p.Total {
				t.Fatalf("%d of %d", p.Sum(), p.Total)
			}
			if rapid.IntRange(0, 9).Draw(t, "goes") == 0 {
				p.Forget(id)
			}
			if rapid.IntRange(0, 5).Draw(t, "moves") == 0 {
				parents[ids[len(ids)-1]] = rapid.SampledFrom(ids[:len(ids)-1]).Draw(t, "to")
				p.Reshare()
			}
		}
	})
}

// counted is a pool of so much, with a member that has invented so many clusters, and counts how often it is divided.
func counted(total, inventions int) (p *Pool, divided *int) {
	divided = new(int)
	parents := map[string]string{"m": "me", "a": "me"}
	for n := range inventions {
		parents[fmt.Sprint("x", n)] = "m"
	}
	p = &Pool{Total: total, Root: "me", Parent: func(id string) string {
		if id == "m" { // asked once in each division
			*divided++
		}
		return parents[id]
	}}
	for n := range inventions {
		if p.Set(fmt.Sprint("x", n), 0); n < 64 {
			p.Set(fmt.Sprint("x", n), total/64)
		}
	}
	return p, divided
}

// TestNothingIsDividedAnew: where nothing has come or gone, whether there is room for any of those that have nothing is known
// without another division.
func TestNothingIsDividedAnew(t *testing.T) {
	p, divided := counted(1<<20, 500)
	for range 3 {
		for n := range 500 {
			if wants := p.Used(fmt.Sprint("x", n)) + p.Total/64; p.Fits(fmt.Sprint("x", n), wants) || p.Make(fmt.Sprint("x", n), wants, nil) {
				t.Fatalf("x%d finds room for %d", n, wants)
			}
		}
	}
	if *divided != 1 {
		t.Errorf("divided %d times", *divided)
	}
	for n := range 500 {
		p.Forget(fmt.Sprint("x", 499-n))
	}
	if p.Sum() != 0 || len(p.used) != 0 {
		t.Errorf("%d are left of %d", p.Sum(), len(p.used))
	}
}

// TestNotDividedForEachBit: who takes its share back bit by bit has it divided once for many of these.
func TestNotDividedForEachBit(t *testing.T) {
	p, divided := counted(1<<20, 100)
	steps := 0
	for wants := 200; wants <= 1<<19; wants += 200 {
		if !p.Make("a", wants, p.Set) {
			t.Fatalf("no room for %d", wants)
		}
		p.Set("a", wants)
		steps++
	}
	if *divided > 2*2*staleness {
		t.Errorf("divided %d times in %d steps", *divided, steps)
	}
}

// TestNobodyGivesWayForNothing: by the shares of a while ago c may have what it wants, and a has more than its own.
func TestNobodyGivesWayForNothing(t *testing.T) {
	p := Pool{Total: 100_000, Root: "me"}
	p.Set("a", 50_200)
	p.Set("c", 49_800)
	if !p.Make("c", 49_900, p.Set) {
		t.Fatal("c does not get its share")
	}
	p.Set("c", 49_850)
	p.Set("a", 50_130)
	p.Set("d", 20)
	if p.Make("c", 49_995, p.Set) || p.Used("a") != 50_130 {
		t.Errorf("c is to have more than its share, or a, which has %d, gave way for nothing", p.Used("a"))
	}
}
