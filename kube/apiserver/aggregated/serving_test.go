// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package aggregated

import (
	"testing"
	"time"
)

// An API server whose clock is behind takes the CA as well as what it signs.
func TestAuthorityIsValidBefore(t *testing.T) {
	t.Parallel()
	began := time.Now()
	a, _, err := newAuthority("registry", "ca")
	if err != nil {
		t.Fatal(err)
	}
	if late := a.cert.NotBefore.Sub(began.Add(-clockSkew)); late > time.Since(began) {
		t.Errorf("the CA is valid from %s on, %s too late", a.cert.NotBefore, late)
	}
}
