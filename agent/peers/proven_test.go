// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/roster-mesh/roster/agent/agenttest"
	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/replica"
)

// What is handed to others is an issued credential with the address that the cluster has signed, once it was seen to answer
// there: not before, not with another address, and the newest one.
func TestProven(t *testing.T) {
	server := httptest.NewTLSServer(identity(idB))
	defer server.Close()
	_, o := options(t)
	object := list(t, o, idB, server.URL)
	say := member(t, &o, idB)
	var issued []byte
	o.Ask = func(context.Context, string) ([]byte, error) { return issued, nil }
	p, calls := quiet(o)
	l := p.newLink(idB)
	defer l.disconnect()
	refreshed := func(wantToken string) {
		t.Helper()
		_, err := l.refresh(t.Context())
		got := p.Proven(idB)
		switch {
		case wantToken == "" && got != nil:
			t.Errorf("a credential for %s is handed out (%v)", got.Host, err)
		case wantToken != "" && (got == nil || got.BearerToken != wantToken || got.Host != server.URL || len(got.CAData) == 0):
			t.Errorf("none is handed out, or an old one (%v)", err)
		}
	}
	issue := func(age time.Duration) (token string) {
		t.Helper()
		issued = agenttest.KubeconfigOf(t, server, server.URL, age, time.Hour)
		config, err := kube.ParseKubeconfig(issued)
		if err != nil {
			t.Fatal(err)
		}
		return config.BearerToken
	}
	token := issue(2 * time.Minute)
	refreshed("") // the address is what somebody wrote here
	signed := object.DeepCopy()
	signed.Spec.KubernetesAPIEndpoints = []v1alpha1.KubernetesAPIEndpoint{endpoint(server)}
	say(replica.Live, signed)
	refreshed(token)

	told := calls.credential.Load()
	token = issue(time.Minute)
	l.connection.unauthorized.Store(true) // as after a revocation
	l.connection.failing.Store(true)
	refreshed(token)
	if calls.credential.Load() == told {
		t.Error("nobody is told of a renewed credential")
	}
	moved := signed.DeepCopy()
	moved.Spec.KubernetesAPIEndpoints[0].ServerAddress = "https://127.0.0.1:1"
	say(replica.Live, moved)
	if p.Proven(idB) != nil {
		t.Error("handed out for an address where nobody was seen to answer")
	}
	refreshed("")
	say(replica.Live, signed)
	refreshed(token)
	p.Detach(idB)
	if p.Proven(idB) != nil {
		t.Error("handed out though the cluster is gone from the group")
	}
}
