// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package apiconn_test

import (
	"testing"
	"time"

	"github.com/roster-mesh/roster/agent/agenttest"
	"github.com/roster-mesh/roster/agent/apiconn"
)

func TestClaims(t *testing.T) {
	swapped := apiconn.ClaimsOf(agenttest.Kubeconfig(t, 0, time.Hour, `"sub":"system:serviceaccount:n-private:swap"`, `"kubernetes.io":{"secret":{"name":"roster-swap","uid":"u"}}`))
	if !swapped.Narrow() || !swapped.Of("n-private", "swap") || swapped.Of("n", "swap") || swapped.Kubernetes.Secret.UID != "u" {
		t.Errorf("a swapped token: %+v", swapped)
	}
	for _, subject := range []string{"system:serviceaccount:n-readers:bootstrap", "system:serviceaccount:n:swap", "system:serviceaccount:n-private:swap2", "n-private:swap", ""} {
		if c := apiconn.ClaimsOf(agenttest.Kubeconfig(t, 0, time.Hour, `"sub":"`+subject+`"`)); c.Subject != subject || c.Narrow() {
			t.Errorf("%q is narrow: %t", subject, c.Narrow())
		}
	}
	for _, kubeconfig := range [][]byte{nil, []byte("{{{"), agenttest.Kubeconfig(t, 0, time.Hour, `"sub":7`)} {
		if c := apiconn.ClaimsOf(kubeconfig); c.Narrow() || c.Of("", "") {
			t.Errorf("what cannot be read: %+v", c)
		}
	}
}
