// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package bounds

import (
	"errors"
	"math"
	"runtime/debug"
	"testing"

	"github.com/roster-mesh/roster/syncrules/engine/inforce"
)

// What is held follows the memory limit of the process: objects and their copies have a fifth of it each, and watches a part each.
func TestDefaultsFollowTheMemoryLimit(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	for _, c := range []struct{ limit, all, copies, view, watches, others int64 }{
		{120 << 20, 24 << 20, 24 << 20, 12 << 20, 640, 320},
		{360 << 20, 72 << 20, 72 << 20, 36 << 20, 1920, 960},
		{3 << 30, 3 << 30 / 5, 3 << 30 / 5, 3 << 30 / 10, 16384, inforce.MaxAllViews},
		{20 << 30, 4 << 30, 4 << 30, DefaultBytes, DefaultWatches, inforce.MaxAllViews},
		{math.MaxInt64, 8 * DefaultBytes, DefaultCopies, DefaultBytes, DefaultWatches, inforce.MaxAllViews},
	} {
		debug.SetMemoryLimit(c.limit)
		var b Bounds
		b.SetDefaults()
		if b.All != c.all || b.Copies != c.copies || b.View.Bytes != c.view || b.View.Objects != DefaultObjects || int64(b.Watches) != c.watches || int64(b.ViewsOfOthers()) != c.others {
			t.Errorf("with %d MiB: %+v", c.limit>>20, b)
		}
		if b.Views(100) != b.Watches-100 || b.Views(b.Watches) != b.Watches/4 {
			t.Errorf("%d views beside 100 watches here", b.Views(100))
		}
	}
	b := Bounds{View: Limits{Bytes: 1000}, Watches: 7}
	b.SetDefaults()
	if b.View.Bytes != 1000 || b.Peer.Bytes != 2000 || b.Watches != 7 || b.Negative() {
		t.Errorf("what is set is not kept: %+v", b)
	}
	if b.All = -1; !b.Negative() || !errors.Is(b.TooManyWatches("x"), ErrTooMuch) {
		t.Error("a negative limit passes")
	}
}
