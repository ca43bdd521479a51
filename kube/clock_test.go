// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"crypto/x509"
	"strings"
	"testing"
	"time"
)

// A certificate that is not accepted because of the date says which of the two may be wrong, and always the same.
func TestOutOfDateSaysWhatMayBeWrong(t *testing.T) {
	now := time.Now()
	for want, from := range map[string]time.Duration{"is behind": time.Hour, "is ahead": -3 * time.Hour} {
		c := &x509.Certificate{NotBefore: now.Add(from), NotAfter: now.Add(from + time.Hour)}
		said := (&linkError{x509.CertificateInvalidError{Cert: c, Reason: x509.Expired}}).Error()
		if !strings.Contains(said, want) || !strings.Contains(said, "clock of this machine") {
			t.Errorf("valid from %v on: %q", from, said)
		}
		if again := (&linkError{x509.CertificateInvalidError{Cert: c, Reason: x509.Expired}}).Error(); again != said {
			t.Errorf("%q, and then %q", said, again)
		}
	}
}
