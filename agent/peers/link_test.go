// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/roster-mesh/roster/agent/agenttest"
	"github.com/roster-mesh/roster/agent/apiconn"
	"github.com/roster-mesh/roster/agent/directory"
	"github.com/roster-mesh/roster/agent/loop"
	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/mesh"
)

func TestBackOffIsBounded(t *testing.T) {
	l := &link{}
	before := time.Duration(0)
	for range 100 {
		wait := l.backOff(retryUntilFixed)
		if wait < before || wait > retryUntilFixed || wait <= 0 {
			t.Fatalf("wait %v after %v", wait, before)
		}
		before = wait
	}
	if before != retryUntilFixed {
		t.Errorf("the longest wait is %v, want %v", before, retryUntilFixed)
	}
}

// An API server that has just started may forbid what it allows a moment later.
func TestForbiddenCountsAsUnreachableFirst(t *testing.T) {
	_, o := options(t)
	p, _ := quiet(o)
	l := p.newLink(idB)
	l.connection = &connection{}
	l.handleError(kube.ErrForbidden)
	if got := p.Peer(idB).State.Access; got != apiconn.Unreachable {
		t.Errorf("forbidden for the first time it is %s", got)
	}
	l.forbidden = time.Now().Add(-2 * doubtForbidden)
	l.handleError(kube.ErrForbidden)
	if got := p.Peer(idB).State.Access; got != apiconn.Invalid || l.connection == nil {
		t.Errorf("forbidden for long it is %s, with the connection %v", got, l.connection)
	}
	l = p.newLink(idB)
	l.handleError(kube.ErrForbidden)
	if got := p.Peer(idB).State.Access; got != apiconn.Invalid {
		t.Errorf("forbidden from the start it is %s", got)
	}
}

// Two alternating failures are backed off from, too: neither requests nor status writes become frequent.
func TestAlternatingFailuresAreBackedOffFrom(t *testing.T) {
	_, o := options(t)
	p, _ := quiet(o)
	l := p.newLink(idB)
	var wait time.Duration
	for i := range 20 {
		wait = l.handleError([]error{kube.ErrUnreachable, kube.ErrWrongCluster}[i%2])
	}
	if wait < loop.RetryFirst<<triesAfterNewError {
		t.Errorf("after 20 failures the wait is %v", wait)
	}
}

// A new peer is read with the pasted credential first and with an issued one a moment later, which its Cluster object
// then names. That is one connection, and its watches stay open.
func TestAnotherTokenKeepsTheConnection(t *testing.T) {
	tokens := make(chan string, 3)
	var conns atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tokens <- r.Header.Get("Authorization")
		identity(idB)(w, r)
	}))
	server.EnableHTTP2 = true
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			conns.Add(1)
		}
	}
	server.StartTLS()
	defer server.Close()
	_, o := options(t)
	p, _ := quiet(o)
	l := p.newLink(idB)
	defer l.disconnect()
	pasted, issued := agenttest.KubeconfigOf(t, server, server.URL, time.Minute, time.Hour), agenttest.KubeconfigOf(t, server, server.URL, 0, time.Hour)
	if err := l.connect(t.Context(), directory.Route{Secret: v1alpha1.NamespacedName{Name: "pasted"}, Vouched: true}, pasted, false); err != nil {
		t.Fatal(err)
	}
	before := l.connection
	if err := l.connect(t.Context(), directory.Route{}, issued, true); err != nil {
		t.Fatal(err)
	}
	if first, second := <-tokens, <-tokens; l.connection != before || conns.Load() != 1 || first == second {
		t.Errorf("the same connection: %t, of %d; the same token: %t", l.connection == before, conns.Load(), first == second)
	}
	if err := l.connect(t.Context(), directory.Route{Secret: v1alpha1.NamespacedName{Name: "another"}, Vouched: true}, pasted, false); err != nil || l.connection == before {
		t.Errorf("what somebody pasted takes the place of what there is before it is proven: %v", err)
	}
	before, l.kubeconfig = l.connection, issued
	elsewhere := directory.Route{Endpoints: []v1alpha1.KubernetesAPIEndpoint{{ServerAddress: strings.Replace(server.URL, "127.0.0.1", "localhost", 1)}}}
	if !l.sameTarget(directory.Route{Secret: v1alpha1.NamespacedName{Name: "issued"}}) || l.sameTarget(elsewhere) {
		t.Error("only where the peer answers makes it another connection")
	}
	if err := l.connect(t.Context(), elsewhere, issued, true); err == nil || l.connection != before {
		t.Errorf("at a name that its certificate does not have: %v", err)
	}
}

// When the route changes to an address where nobody answers, and then back to that of the present connection, the link
// reports the peer as connected again.
func TestRouteChangedBackIsReported(t *testing.T) {
	server := httptest.NewTLSServer(identity(idB))
	defer server.Close()
	_, o := options(t)
	keepFor(t, o, idB, agenttest.KubeconfigOf(t, server, server.URL, 0, time.Hour))
	p, calls := quiet(o)
	l := p.newLink(idB)
	defer l.disconnect()
	for i, at := range []string{server.URL, "https://127.0.0.1:1", server.URL} {
		list(t, o, idB, at)
		if _, err := l.refresh(t.Context()); err != nil {
			l.handleError(err)
		}
		want := []apiconn.Access{apiconn.Ready, apiconn.Unreachable, apiconn.Ready}[i]
		if got := p.Peer(idB).State.Access; got != want {
			t.Errorf("at %s it is %s, want %s", at, got, want)
		}
	}
	if n := calls.credential.Load(); n != 1 {
		t.Errorf("CredentialKept was called %d times", n)
	}
}

// The watches of a connected peer report its health: the link is woken when they fail and when they recover.
func TestWatchesWakeTheLink(t *testing.T) {
	_, o := options(t)
	list(t, o, idB)
	p, _ := quiet(o)
	p.Changed(idB)
	l := p.newLink(idB)
	sink := &healthSink{Sink: nobody{}, connection: &connection{peers: p, id: idB}}
	for i, c := range []struct {
		err                   error
		wakes                 bool
		unauthorized, failing bool
	}{
		{kube.ErrUnreachable, true, false, true},
		{kube.ErrUnreachable, false, false, true},
		{nil, true, false, true}, // until the link has verified it
		{kube.ErrForbidden, true, false, true},
		{kube.ErrUnauthorized, false, true, true},
	} {
		select {
		case <-l.wake:
		default:
		}
		sink.Health(c.err)
		if unauthorized, failing := sink.connection.unauthorized.Load(), sink.connection.failing.Load(); len(l.wake) > 0 != c.wakes || unauthorized != c.unauthorized || failing != c.failing {
			t.Errorf("%d: after %v it is woken: %t, unauthorized: %t, failing: %t", i, c.err, len(l.wake) > 0, unauthorized, failing)
		}
	}
}

// An agent in a pod does not dial what leads to the pod or its node, whoever names it: the peer's endpoints or the
// kubeconfig that its agent issued. Its status names the field.
func TestPodsKeepOffLocalAddresses(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		identity(idB)(w, r)
	}))
	defer server.Close()
	_, o := options(t)
	keepFor(t, o, idB, agenttest.KubeconfigOf(t, server, server.URL, 0, time.Hour))
	p, _ := quiet(o)
	list(t, o, idB)
	for _, inPod := range []bool{true, false} {
		if o.Client.Config.BearerTokenFile = ""; inPod {
			o.Client.Config.BearerTokenFile = kube.PodTokenFile
		}
		l := p.newLink(idB)
		_, err := l.refresh(t.Context())
		if err != nil {
			l.handleError(err)
		}
		l.disconnect()
		got := p.Peer(idB).State
		if inPod && (got.Access != apiconn.Unreachable || !strings.HasPrefix(got.Message, "spec.kubernetesApiEndpoints ")) {
			t.Errorf("in a pod it is %s: %s", got.Access, got.Message)
		}
		if !inPod && got.Access != apiconn.Ready {
			t.Errorf("outside pods it is %s: %s", got.Access, got.Message)
		}
		if n := asked.Load(); (n == 0) != inPod {
			t.Errorf("in a pod: %t, and it is asked %d times", inPod, n)
		}
	}
}

// A peer that is disabled here is read no more, until the annotation goes.
func TestDisabledPeerIsNotRead(t *testing.T) {
	server := httptest.NewTLSServer(identity(idB))
	defer server.Close()
	_, o := options(t)
	keepFor(t, o, idB, agenttest.KubeconfigOf(t, server, server.URL, 0, time.Hour))
	p, _ := quiet(o)
	c := list(t, o, idB)
	l := p.newLink(idB)
	defer l.disconnect()
	for i, disabled := range []bool{false, true, false} {
		now := c.DeepCopy()
		if disabled {
			now.Annotations = map[string]string{v1alpha1.AnnotationClusterDisabled: ""}
		}
		if err := o.Directory.Registry.Put(now); err != nil {
			t.Fatal(err)
		}
		if _, err := l.refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := p.Peer(idB); (got.State.Access == apiconn.Disabled) != disabled || (got.Client == nil) != disabled {
			t.Errorf("%d: disabled: %t, and it is %s: %s, and read: %t", i, disabled, got.State.Access, got.State.Message, got.Client != nil)
		}
	}
}

// With a swapped credential alone, a cluster is proven to be there, and rules do not read it: their status says what is
// missing. They read it as soon as its agent has issued a credential, and no more when that gives way to the swapped one.
func TestRulesWaitForIssuedCredential(t *testing.T) {
	server := httptest.NewTLSServer(identity(idB))
	defer server.Close()
	_, o := options(t)
	const swapped = `"sub":"system:serviceaccount:any-private:swap"`
	pasteSecret(t, o, "s", agenttest.KubeconfigOf(t, server, server.URL, 0, time.Hour, swapped))
	naming(t, o, idB, "s", 1)
	var issued []byte
	o.Ask = func(context.Context, string) ([]byte, error) { return issued, nil }
	p, calls := quiet(o)
	l := p.newLink(idB)
	defer l.disconnect()
	for i, c := range []struct {
		issued []byte
		reads  bool
	}{
		{nil, false},
		{agenttest.KubeconfigOf(t, server, server.URL, 0, time.Hour), true},
		{agenttest.KubeconfigOf(t, server, server.URL, 0, time.Hour, swapped), true}, // whatever it says of itself
	} {
		issued = c.issued
		l.credentials.kept = nil
		if err := p.ForgetCredential(t.Context(), idB); err != nil {
			t.Fatal(err)
		}
		p.set(idB, func(tr *tracked) { tr.issued = false }) // look for one again
		before := calls.connection.Load()
		if _, err := l.refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := p.Peer(idB)
		if got.State.Access != apiconn.Ready || (got.Source != nil) != c.reads || strings.Contains(got.State.Message, "credentials.legacyToken") == c.reads {
			t.Errorf("%d: it is %s: %s; rules read it: %t", i, got.State.Access, got.State.Message, got.Source != nil)
		}
		if i < 2 && calls.connection.Load() == before {
			t.Errorf("%d: the rules are not told", i)
		}
	}
	issued = nil
	if err := p.ForgetCredential(t.Context(), idB); err != nil {
		t.Fatal(err)
	}
	l.credentials.kept = nil
	l.connection.failing.Store(true)
	if _, err := l.refresh(t.Context()); err != nil || p.Peer(idB).Source != nil {
		t.Errorf("with the swapped one again: %v, rules read it: %t", err, p.Peer(idB).Source != nil)
	}
}

// When the agent of a peer fails, its link looks whether the API server still answers: no watch may be open there.
func TestFailedMemberIsVerified(t *testing.T) {
	server := httptest.NewTLSServer(identity(idB))
	defer server.Close()
	_, o := options(t)
	keepFor(t, o, idB, agenttest.KubeconfigOf(t, server, server.URL, 0, time.Hour))
	list(t, o, idB, server.URL)
	p, _ := quiet(o)
	p.Changed(idB)
	l := p.newLink(idB)
	defer l.disconnect()
	for _, want := range []apiconn.Access{apiconn.Ready, apiconn.Ready, apiconn.Unreachable} {
		if want == apiconn.Unreachable {
			server.Close()
		}
		<-l.wake
		if _, err := l.refresh(t.Context()); err != nil {
			l.handleError(err)
		}
		if got := p.Peer(idB).State.Access; got != want {
			t.Errorf("it is %s, want %s", got, want)
		}
		p.MemberChanged(idB, mesh.Suspect)
		if len(l.wake) > 0 {
			t.Error("it is woken while others are asked")
		}
		p.MemberChanged(idB, mesh.Failed)
	}
	<-l.wake
	if p.MemberChanged(idB, mesh.Alive); len(l.wake) == 0 {
		t.Error("it is not woken when the agent answers again")
	}
}
