// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package fanout

import "testing"

func TestExcess(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		load       Load
		namespaces int
		want       string
	}{
		{Load{}, 100_000, ""},
		{Load{2, 100}, MaxCopies / 2, ""},
		{Load{2, 100}, MaxCopies/2 + 1, "10002 copies, of 2 objects in 5001 namespaces each, and 10000 is most"},
		{Load{1, MaxBytes / 8}, 8, ""},
		{Load{1, 1 << 20}, 5000, "copies of 5000 MiB, of 1 objects with 1024 KiB in 5000 namespaces each, and 128 MiB is most"},
	} {
		if got := c.load.Plus(Load{}).Excess(c.namespaces); got != c.want {
			t.Errorf("%+v in %d namespaces: %q, want %q", c.load, c.namespaces, got, c.want)
		}
	}
}
