// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package removals

import (
	"fmt"
	"testing"

	"github.com/roster-mesh/roster/replica"
)

// What is asked about a few removals costs nothing for the thousands beside them: it is asked for each status.
func TestWhichCopiesWhatItReturns(t *testing.T) {
	var l Ledger
	for i := range 10_000 {
		l.Add(Removal{Removal: replica.Removal{ClusterID: fmt.Sprint(i), PublicKey: []byte(fmt.Sprint(i))}, Ordered: i == 7})
	}
	ordered := func(r *Removal) bool { return r.Ordered }
	got := l.Which(ordered)
	if len(got) != 1 || got[0].ClusterID != "7" || len(l.All()) != 10_000 {
		t.Errorf("it returns %+v", got)
	}
	got[0].Ordered = false
	if len(l.Which(ordered)) != 1 {
		t.Error("it returns no copy")
	}
	if n := testing.AllocsPerRun(10, func() { l.Which(ordered) }); n > 1 {
		t.Errorf("it allocates %v times for one of 10,000", n)
	}
}
