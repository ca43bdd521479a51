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
			ok := p.Make(id, wants, func(other string, most int) {
				if most < min(p.Used(other), shares[other])-slack || other == id {
					t.Fatalf("%s, which has %d of %d, is to keep %d for %s", other, p.Used(other), shares[other], most, id)
				}
				p.Set(other, most)
			})
			switch {
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
			if rapid.IntRange(0, 5).Draw(t, "moves") == 0 {
				parents[ids[len(ids)-1]] = rapid.SampledFrom(ids[:len(ids)-1]).Draw(t, "to")
				p.Reshare()
			}
		}
	})
}
