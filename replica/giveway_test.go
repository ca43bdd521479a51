// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestWhatIsLetGoForNothingIsTold: an older epoch makes room for an entry that finds none even so, whether it still has a layer or was
// only shown.
func TestWhatIsLetGoForNothingIsTold(t *testing.T) {
	for epochs := uint64(1); epochs <= maxLayers; epochs++ {
		b := limited(t, "b", Limits{Bytes: 3000}, "a")
		var told []Change
		b.Subscribe(func(changes []Change) { told = append(told, changes...) })
		for epoch := range epochs {
			merge(t, b, publish(t, newReplica(t, "a", epoch+1), rule(fmt.Sprint("r", epoch)), Live, "x")...)
		}
		told = nil
		large := publish(t, newReplica(t, "a", epochs+1), rule("large"), Live, strings.Repeat("x", 3000))[0]
		if _, _, err := b.Merge(large, ""); !errors.Is(err, ErrFull) {
			t.Fatal(err)
		}
		if _, ok := b.Lookup(rule("r0"), "a"); ok || !slices.Contains(told, Change{Origin: "a"}) {
			t.Errorf("after %d epochs the first entry is held: %t; told %v", epochs, ok, told)
		}
		told = nil
		if _, _, err := b.Merge(large, ""); !errors.Is(err, ErrFull) || len(told) > 0 {
			t.Errorf("the second time %v, told %v", err, told)
		}
	}
}
