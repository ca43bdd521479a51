// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package versions

import "testing"

func TestSkew(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ a, b, want string }{
		{"1.4.2", "1.4.0", SkewNone},
		{"1.4.2", "1.5.0", SkewSupported},
		{"1.5.0", "1.4.2", SkewSupported},
		{"1.4.2", "1.6.0", SkewExceeded},
		{"1.4.2", "2.4.2", SkewExceeded},
		{"1.4.2", "", SkewUnknown},
		{"(devel)", "1.4.2", SkewUnknown},
	} {
		if got := Skew(Parse(c.a), Parse(c.b)); got != c.want {
			t.Errorf("%s and %s: %s, want %s", c.a, c.b, got, c.want)
		}
	}
}
