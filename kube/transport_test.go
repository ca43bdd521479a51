// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"crypto/x509"
	"strings"
	"testing"
	"time"
)

// A certificate that is not accepted because of the date says which of the two may be wrong, and always the same:
// whoever answers at the address could put any date there.
func TestOutOfDateSaysWhatMayBeWrong(t *testing.T) {
	said := map[string]bool{}
	for _, from := range []time.Duration{time.Hour, -3 * time.Hour} {
		c := &x509.Certificate{NotBefore: time.Now().Add(from), NotAfter: time.Now().Add(from + time.Hour)}
		said[(&connectionError{x509.CertificateInvalidError{Cert: c, Reason: x509.Expired}}).Error()] = true
	}
	if len(said) != 1 {
		t.Errorf("said %v", said)
	}
	for text := range said {
		if !strings.Contains(text, "or the clock of this machine is wrong") {
			t.Errorf("said %q", text)
		}
	}
}
