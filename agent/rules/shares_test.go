// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/replica/shares"
	"github.com/roster-mesh/roster/syncrules/engine/inforce"
	"github.com/roster-mesh/roster/syncrules/engine/place"
)

// A member invents 4,096 clusters, most of which others of them admitted, and each has a rule for 256 namespaces. By the tree of
// admissions a sibling, whose rules came last, has all its 200 rules in force.
func TestInventionsShareByAdmissions(t *testing.T) {
	t.Parallel()
	const inventions = 4096
	parents := map[string]string{"good": "hub", "bad": "hub", "hub": "me"}
	var rules []inforce.Rule
	rule := func(author string, namespaces int) {
		r := inforce.Rule{Author: author}
		for i := range namespaces {
			r.Views = append(r.Views, place.Scope{GVK: schema.GroupVersionKind{Version: "v1", Kind: "Secret"}, Namespace: fmt.Sprint(author, len(rules), i)})
		}
		rules = append(rules, r)
	}
	for i := range inventions {
		id, by := fmt.Sprint("bad-", i), "bad"
		if i >= 100 {
			by = fmt.Sprint("bad-", i/100)
		}
		parents[id] = by
		rule(id, 256)
		rule(id, 1)
	}
	for range 200 {
		rule("good", 1)
	}
	began := time.Now()
	excess, costly := inforce.Decide(rules, func(total int, wants map[string]int) map[string]int {
		return shares.Of(total, "me", func(id string) string { return parents[id] }, wants)
	})
	t.Logf("decided in %s", time.Since(began))
	good, bad, watches := 0, 0, 0
	for i, r := range rules {
		switch {
		case excess[i] != inforce.None:
			continue
		case strings.HasPrefix(r.Author, "bad"):
			bad++
		default:
			good++
		}
		watches += len(r.Views)
	}
	if good != 200 || watches > inforce.MaxAllViews || !costly {
		t.Errorf("%d of 200 rules of the sibling are in force, and %d of the inventions, with %d watches in all", good, bad, watches)
	}
}
