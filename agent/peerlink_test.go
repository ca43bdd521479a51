// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// kubeconfig makes one whose token was issued so long ago and lives that long.
func kubeconfig(t *testing.T, age, life time.Duration) []byte {
	t.Helper()
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	return kubeconfigOf(t, server, "https://127.0.0.1:1", age, life)
}

// kubeconfigOf makes one for a server with the certificate of that one.
func kubeconfigOf(t *testing.T, server *httptest.Server, url string, age, life time.Duration) []byte {
	t.Helper()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	issued := time.Now().Add(-age)
	claims := fmt.Sprintf(`{"iat":%d,"exp":%d}`, issued.Unix(), issued.Add(life).Unix())
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: url, CertificateAuthorityData: ca}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "x"
	data, err := clientcmd.Write(*config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kube.ParseKubeconfig(data); err != nil {
		t.Fatal(err)
	}
	return data
}

// An API server may grant less than was asked for: renewal goes by what was granted, or a short life would be
// renewed without end.
func TestRenewalGoesByTheLifeThatWasGranted(t *testing.T) {
	var clock issuerClock
	for _, life := range []time.Duration{10 * time.Minute, 12 * time.Hour} {
		fresh := clock.renewIn(kubeconfig(t, 0, life))
		if fresh < life*7/10 || fresh > life*8/10 {
			t.Errorf("a life of %v is renewed after %v, want 75 to 80 %% of it", life, fresh)
		}
		if late := clock.renewIn(kubeconfig(t, life*9/10, life)); late > 0 {
			t.Errorf("a life of %v that is nearly over is renewed only after %v", life, late)
		}
	}
	if clock.renewIn(nil) != untilWoken {
		t.Error("a credential without a life is used until it is refused")
	}
}

func TestPauseGrowsToItsMost(t *testing.T) {
	link := &peerLink{}
	before := time.Duration(0)
	for range 100 {
		wait := link.pause(mendMost)
		if wait < before || wait > mendMost || wait <= 0 {
			t.Fatalf("wait %v after %v", wait, before)
		}
		before = wait
	}
	if before != mendMost {
		t.Errorf("the longest wait is %v, want %v", before, mendMost)
	}
}

func TestProblemsTellOnlyNews(t *testing.T) {
	told := 0
	p := &problems{changed: func() { told++ }}
	_ = p.set(problemCredential, errGone)
	_ = p.set(problemCredential, errGone)
	_ = p.set(problemRestored, errRestored)
	if told != 2 || p.String() != errGone.Error()+"; "+errRestored.Error() {
		t.Errorf("told %d times, %q", told, p)
	}
	_ = p.set(problemCredential, nil)
	_ = p.set(problemRestored, nil)
	if told != 4 || p.String() != "" {
		t.Errorf("told %d times, %q", told, p)
	}
}

func TestReportIsUnchangedByTheSameFailure(t *testing.T) {
	s := &session{clusterID: idA, statuses: newLoop[string]("", nil, nil)}
	s.peers = newPeers(s, nil)
	s.peers.report(idB, accessUnreachable, "no answer")
	since := s.peers.look(idB).state.since
	s.statuses.queue.Get()
	s.statuses.queue.Done(idB)
	s.peers.report(idB, accessUnreachable, "no answer")
	if s.statuses.queue.Len() != 0 {
		t.Error("the same failure is written again")
	}
	s.peers.report(idB, accessUnreachable, "refused")
	if got := s.peers.look(idB).state; s.statuses.queue.Len() != 1 || got.since != since || got.message != "refused" {
		t.Errorf("another message for the same access: %+v, since %v", got, since)
	}
}

// An API server that just started forbids what it allows a moment later.
func TestForbiddenIsDoubtedFirst(t *testing.T) {
	s := &session{clusterID: idA, statuses: newLoop[string]("", nil, nil)}
	s.peers = newPeers(s, nil)
	link := &peerLink{session: s, id: idB, source: &peerSource{}}
	link.failed(kube.ErrForbidden)
	if got := s.peers.look(idB).state.access; got != accessUnreachable {
		t.Errorf("forbidden for the first time it is %s", got)
	}
	link.forbidden = time.Now().Add(-2 * grace)
	link.failed(kube.ErrForbidden)
	if got := s.peers.look(idB).state.access; got != accessInvalid || link.source == nil {
		t.Errorf("forbidden for long it is %s, with the source %v", got, link.source)
	}
	link = &peerLink{session: s, id: idB}
	link.failed(kube.ErrForbidden)
	if got := s.peers.look(idB).state.access; got != accessInvalid {
		t.Errorf("forbidden from the start it is %s", got)
	}
}

// A peer that fails in two ways in turn is not asked, and its status not written, many times a second.
func TestFailuresInTurnAreBackedOffFrom(t *testing.T) {
	s := &session{clusterID: idA, statuses: newLoop[string]("", nil, nil), offers: newLoop[string]("", nil, nil)}
	s.peers = newPeers(s, nil)
	link := &peerLink{session: s, id: idB}
	var wait time.Duration
	for i := range 20 {
		wait = link.failed([]error{kube.ErrUnreachable, kube.ErrWrongCluster}[i%2])
	}
	if wait < retryFirst<<triesAfterChange {
		t.Errorf("after 20 failures the wait is %v", wait)
	}
}

func TestManyProblemsStayShort(t *testing.T) {
	p := &problems{changed: func() {}}
	for i := range 1000 {
		_ = p.set(fmt.Sprint(problemRoom, i), errGone)
	}
	if want := "and 997 more"; !strings.HasSuffix(p.String(), want) || len(p.String()) > 1000 {
		t.Errorf("%q, want it to end with %q", p, want)
	}
}

// A newcomer is read with the swapped credential at first and with one of our own a moment later, which its Cluster
// object then names: that is one connection, whose watches go on.
func TestAnotherTokenKeepsTheConnection(t *testing.T) {
	tokens := make(chan string, 3)
	var conns atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tokens <- r.Header.Get("Authorization")
		fmt.Fprintf(w, `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"kube-system","uid":%q}}`, idB)
	}))
	server.EnableHTTP2 = true
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			conns.Add(1)
		}
	}
	server.StartTLS()
	defer server.Close()
	s := &session{clusterID: idA, statuses: newLoop[string]("", nil, nil), offers: newLoop[string]("", nil, nil), meter: newRequestMeter()}
	s.peers = newPeers(s, nil)
	link := newPeerLink(s, idB)
	defer link.drop()
	pasted, issued := kubeconfigOf(t, server, server.URL, time.Minute, time.Hour), kubeconfigOf(t, server, server.URL, 0, time.Hour)
	if err := link.connect(t.Context(), linkInputs{secret: v1alpha1.NamespacedName{Name: "pasted"}}, pasted, false); err != nil {
		t.Fatal(err)
	}
	source := link.source
	if err := link.connect(t.Context(), linkInputs{}, issued, true); err != nil {
		t.Fatal(err)
	}
	if first, second := <-tokens, <-tokens; link.source != source || conns.Load() != 1 || first == second {
		t.Errorf("the same source: %t, connections: %d, the same token: %t", link.source == source, conns.Load(), first == second)
	}
	if err := link.connect(t.Context(), linkInputs{secret: v1alpha1.NamespacedName{Name: "another"}}, pasted, false); err != nil || link.source == source {
		t.Errorf("what somebody pasted takes the place of what there is before it is proven: %v", err)
	}
	source, link.kubeconfig = link.source, issued
	elsewhere := linkInputs{endpoints: []v1alpha1.KubernetesAPIEndpoint{{ServerAddress: strings.Replace(server.URL, "127.0.0.1", "localhost", 1)}}}
	if !link.leads(linkInputs{secret: v1alpha1.NamespacedName{Name: "issued"}}) || link.leads(elsewhere) {
		t.Error("only where the peer answers makes it another connection")
	}
	if err := link.connect(t.Context(), elsewhere, issued, true); err == nil || link.source != source {
		t.Errorf("at a name that its certificate does not have: %v", err)
	}
}

// The peer is said to be elsewhere, where nobody answers, and then back where the connection leads all the time: that is
// looked at, or what is shown of the peer would stay as it was.
func TestTheWayBackIsLookedAt(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"kube-system","uid":%q}}`, idB)
	}))
	defer server.Close()
	s, _ := grouped(t)
	s.meter = newRequestMeter()
	if err := keep(t, s, idB, kubeconfigOf(t, server, server.URL, 0, time.Hour)); err != nil {
		t.Fatal(err)
	}
	link := newPeerLink(s, idB)
	defer link.drop()
	for i, at := range []string{server.URL, "https://127.0.0.1:1", server.URL} {
		c := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "b"}}
		c.Spec.ClusterID, c.Spec.KubernetesAPIEndpoints = idB, []v1alpha1.KubernetesAPIEndpoint{{ServerAddress: at}}
		if err := s.registry.clusterIndex.Add(c); err != nil {
			t.Fatal(err)
		}
		if _, err := link.refresh(t.Context()); err != nil {
			link.failed(err)
		}
		want := []access{accessReady, accessUnreachable, accessReady}[i]
		if got := s.peers.look(idB).state.access; got != want {
			t.Errorf("at %s it is %s, want %s", at, got, want)
		}
	}
}

// What a peer issued is kept, whoever wrote or deleted its Secret since that was read.
func TestACredentialIsKeptWhateverBecameOfItsSecret(t *testing.T) {
	s, _ := grouped(t)
	kept, err := s.private.credential(t.Context(), idB)
	if err != nil {
		t.Fatal(err)
	}
	for i, meanwhile := range []func() error{
		func() error { return nil },
		func() error { return keep(t, s, idB, []byte("another")) },
		func() error { return s.private.forgetPeer(t.Context(), idB) },
		func() error {
			return errors.Join(s.private.forgetPeer(t.Context(), idB), keep(t, s, idB, []byte("another")))
		},
	} {
		if err := meanwhile(); err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprint("ours ", i)
		if err := s.private.recordCredential(t.Context(), kept, []byte(want)); err != nil {
			t.Errorf("%s: %v", want, err)
		}
		if now, err := s.private.credential(t.Context(), idB); err != nil || string(now.Data[v1alpha1.SecretKubeconfigKey]) != want {
			t.Errorf("kept is %s, want %s: %v", now.Data, want, err)
		}
	}
	kept.ResourceVersion = "" // it was not there when it was read
	if err := s.private.recordCredential(t.Context(), kept, []byte("last")); err != nil {
		t.Error(err)
	}
}
