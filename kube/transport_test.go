// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"crypto/x509"
	"strings"
	"testing"
	"time"
)

// The error for a certificate that is not valid now names both possible causes. It is the same for both, since a hostile
// server can choose the dates of its certificate.
func TestCertificateNotValidNow(t *testing.T) {
	messages := map[string]bool{}
	for _, from := range []time.Duration{time.Hour, -3 * time.Hour} {
		c := &x509.Certificate{NotBefore: time.Now().Add(from), NotAfter: time.Now().Add(from + time.Hour)}
		messages[(&connectionError{x509.CertificateInvalidError{Cert: c, Reason: x509.Expired}}).Error()] = true
	}
	if len(messages) != 1 {
		t.Errorf("messages %v", messages)
	}
	for text := range messages {
		if !strings.Contains(text, "or the clock of this machine is wrong") {
			t.Errorf("message %q", text)
		}
	}
}
