// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roster-mesh/roster/agent/agenttest"
	"github.com/roster-mesh/roster/agent/apiconn"
	"github.com/roster-mesh/roster/agent/payload"
	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/mesh/trust"
	"github.com/roster-mesh/roster/replica"
)

// naming lists a cluster whose object, made at a minute, names the pasted Secret n/NAME.
func naming(t *testing.T, o Options, id, name string, minute int, endpoints ...v1alpha1.KubernetesAPIEndpoint) *v1alpha1.Cluster {
	t.Helper()
	c := &v1alpha1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Name: "cluster-" + id, CreationTimestamp: metav1.Unix(int64(60*minute), 0)},
		Spec: v1alpha1.ClusterSpec{
			ClusterID: types.UID(id), KubernetesAPIEndpoints: endpoints,
			AuthInfo: v1alpha1.AuthInfo{SecretRef: v1alpha1.NamespacedName{Namespace: "n", Name: name}},
		},
	}
	if err := o.Directory.Registry.Put(c); err != nil {
		t.Fatal(err)
	}
	return c
}

func pasteSecret(t *testing.T, o Options, name string, kubeconfig []byte) {
	t.Helper()
	if _, err := o.Client.Secrets("n").Create(t.Context(), &kube.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "n"}, Type: v1alpha1.SecretType,
		Data: map[string][]byte{v1alpha1.SecretKubeconfigKey: kubeconfig},
	}); err != nil {
		t.Fatal(err)
	}
}

// holder is the cluster that the Secret n/NAME serves when cluster id wants it.
func holder(t *testing.T, p *Peers, id, name string) string {
	t.Helper()
	got, err := p.claim(t.Context(), id, v1alpha1.NamespacedName{Namespace: "n", Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// A pasted Secret serves the first cluster whose object names it, whichever link asks first, also after a restart and when
// that object names its issued credential instead. It serves another one when the first is gone, or uses another Secret.
func TestPastedSecretServesOneCluster(t *testing.T) {
	_, o := options(t)
	first, second := naming(t, o, idC, "s", 1), naming(t, o, idB, "s", 2)
	p, _ := quiet(o)
	if b, c := holder(t, p, idB, "s"), holder(t, p, idC, "s"); b != idC || c != idC {
		t.Errorf("it serves %s for B and %s for C", b, c)
	}
	first.Spec.AuthInfo.SecretRef = v1alpha1.NamespacedName{Namespace: "p", Name: v1alpha1.IssuedSecret(idC)}
	p, _ = quiet(o)
	if got := holder(t, p, idB, "s"); got != idC {
		t.Errorf("after a restart, and with an issued credential, it serves %s", got)
	}
	first.Spec.AuthInfo.SecretRef = v1alpha1.NamespacedName{Namespace: "n", Name: "another"}
	if got := holder(t, p, idC, "another"); got != idC {
		t.Errorf("the other Secret serves %s", got)
	}
	if got := holder(t, p, idB, "s"); got != idB {
		t.Errorf("the Secret that is not used any more serves %s", got)
	}
	if err := o.Directory.Registry.Drop(second); err != nil {
		t.Fatal(err)
	}
	p.Changed(idC)
	l := p.newLink(idC)
	for len(l.wake) > 0 {
		<-l.wake
	}
	naming(t, o, idC, "s", 3)
	p.wakeWaiting(idB)
	if got := holder(t, p, idC, "s"); got != idC || len(l.wake) == 0 {
		t.Errorf("when its cluster is gone it serves %s, woken %d times", got, len(l.wake))
	}
	naming(t, o, idA, "s", 9)
	if got := holder(t, p, idC, "s"); got != idA {
		t.Errorf("the own credential of this cluster serves %s", got)
	}
}

// thief counts the requests that carry a credential.
type thief struct {
	*httptest.Server
	took atomic.Int32
}

func newThief(t *testing.T, id string) *thief {
	t.Helper()
	s := &thief{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			s.took.Add(1)
		}
		identity(id)(w, r)
	}))
	public, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{{127, 0, 0, 1}}, IsCA: true, BasicConstraintsValid: true}
	certificate, err := x509.CreateCertificate(nil, template, template, public, key)
	if err != nil {
		t.Fatal(err)
	}
	s.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{certificate}, PrivateKey: key}}} // all others of httptest have the same one
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// endpoint is the address of a server with its CA.
func endpoint(s *httptest.Server) v1alpha1.KubernetesAPIEndpoint {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	return v1alpha1.KubernetesAPIEndpoint{ServerAddress: s.URL, CABundle: ca}
}

// try connects to a cluster once, and returns how that went.
func try(t *testing.T, p *Peers, id string) apiconn.AccessState {
	t.Helper()
	l := p.newLink(id)
	defer l.disconnect()
	if _, err := l.refresh(t.Context()); err != nil {
		l.handleError(err)
	}
	return p.Peer(id).State
}

// A cluster whose object names the Secret of another, and that publishes an address and a CA of its own, does not get the
// token in it. Its status says why.
func TestSharedSecretGoesToNobodyElse(t *testing.T) {
	server, stolen := httptest.NewTLSServer(identity(idB)), newThief(t, idC)
	defer server.Close()
	_, o := options(t)
	o.Directory.Swapped = func(string) bool { return true }
	pasteSecret(t, o, "s", agenttest.KubeconfigOf(t, server, server.URL, 0, time.Hour))
	naming(t, o, idB, "s", 1)
	naming(t, o, idC, "s", 2, endpoint(stolen.Server))
	p, _ := quiet(o)
	if got := try(t, p, idC); stolen.took.Load() > 0 || got.Access != apiconn.Invalid || !strings.Contains(got.Message, "the pasted Secret n/s serves cluster cluster-"+idB) {
		t.Errorf("the token is sent %d times; %s: %s", stolen.took.Load(), got.Access, got.Message)
	}
	if got := try(t, p, idB); got.Access != apiconn.Ready {
		t.Errorf("its own cluster is %s: %s", got.Access, got.Message)
	}
}

// A cluster that got an issued credential before its pasted Secret was looked at has claimed that all the same.
func TestUnusedSecretIsClaimed(t *testing.T) {
	server := httptest.NewTLSServer(identity(idB))
	defer server.Close()
	_, o := options(t)
	keepFor(t, o, idB, agenttest.KubeconfigOf(t, server, server.URL, 0, time.Hour))
	first := naming(t, o, idB, "s", 1)
	p, _ := quiet(o)
	if got := try(t, p, idB); got.Access != apiconn.Ready {
		t.Fatalf("it is %s: %s", got.Access, got.Message)
	}
	first.Spec.AuthInfo.SecretRef = v1alpha1.NamespacedName{Namespace: "p", Name: v1alpha1.IssuedSecret(idB)}
	naming(t, o, idC, "s", 2)
	if got := holder(t, p, idC, "s"); got != idB {
		t.Errorf("it serves %s", got)
	}
}

// A pasted token goes to a server that its own CA proves, or a CA that a person wrote here, or one that the owner of a key
// signed that a person pinned here; not to where a member leads that has invented the clusterID.
func TestPastedTokenGoesToProvenServers(t *testing.T) {
	for name, c := range map[string]struct {
		swapped, written, sent bool
	}{
		"written by a person":   {written: true, sent: true},
		"signed after a swap":   {swapped: true, sent: true},
		"of who was introduced": {},
	} {
		server, other := httptest.NewTLSServer(identity(idB)), newThief(t, idB)
		_, o := options(t)
		o.Directory.Swapped = func(string) bool { return c.swapped }
		pasteSecret(t, o, "s", agenttest.KubeconfigOf(t, server, server.URL, 0, time.Hour))
		object := naming(t, o, idB, "s", 1, endpoint(other.Server))
		if !c.written {
			payload.MarkCopy(object, payload.Meta{}, idB)
		}
		p, _ := quiet(o)
		if got := try(t, p, idB); (other.took.Load() > 0) != c.sent || (got.Access == apiconn.Ready) != c.sent {
			t.Errorf("%s: sent %d times; %s: %s", name, other.took.Load(), got.Access, got.Message)
		}
		server.Close()
	}
}

// member adds a cluster whose key is pinned to a group; what it says there is signed.
func member(t *testing.T, o *Options, id string) (say func(replica.Status, *v1alpha1.Cluster)) {
	t.Helper()
	keys := trust.New(trust.Pin{ClusterID: idA, PublicKey: agenttest.PublicKey(idA)}, trust.Options{})
	if err := keys.Pin(id, agenttest.PublicKey(id)); err != nil {
		t.Fatal(err)
	}
	var err error
	if o.Directory.Replica, err = replica.New(replica.Options{Self: idA, PrivateKey: agenttest.Key(idA), Epoch: 1, Keyring: keys}); err != nil {
		t.Fatal(err)
	}
	signer := agenttest.Signer(t, id, agenttest.Key(id))
	return func(status replica.Status, c *v1alpha1.Cluster) {
		t.Helper()
		data, err := payload.EncodeCluster(c)
		if err != nil {
			t.Fatal(err)
		}
		messages, err := signer.Publish(payload.ClusterKey(id), status, data)
		if err != nil {
			t.Fatal(err)
		}
		for _, message := range messages {
			if _, _, err := o.Directory.Replica.Merge(message, id); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A member that withdraws what it published in the name of another cluster, while it is asked for a credential, does not make
// its CA one that a person wrote.
func TestWithdrawnEntryVouchesForNothing(t *testing.T) {
	server, other := httptest.NewTLSServer(identity(idB)), newThief(t, idB)
	defer server.Close()
	_, o := options(t)
	pasteSecret(t, o, "s", agenttest.KubeconfigOf(t, server, server.URL, 0, time.Hour))
	object := naming(t, o, idB, "s", 1, endpoint(other.Server))
	say := member(t, &o, idB)
	say(replica.Live, object)
	written := object.DeepCopy() // by a person
	written.Spec.KubernetesAPIEndpoints = []v1alpha1.KubernetesAPIEndpoint{endpoint(server)}
	if err := o.Directory.Registry.Put(written); err != nil {
		t.Fatal(err)
	}
	asked := false
	o.Ask = func(context.Context, string) ([]byte, error) {
		asked = true
		say(replica.Withdrawn, object)
		return nil, nil
	}
	p, _ := quiet(o)
	if got := try(t, p, idB); !asked || other.took.Load() > 0 || got.Access == apiconn.Ready {
		t.Errorf("asked: %t; the token is sent %d times; %s: %s", asked, other.took.Load(), got.Access, got.Message)
	}
	if got := try(t, p, idB); got.Access != apiconn.Ready {
		t.Errorf("by what a person wrote it is %s: %s", got.Access, got.Message)
	}
}

// The CA of a pasted kubeconfig may sign the names of a member, too, as a public one does: the server is that of the kubeconfig,
// wherever a member that only introduced the cluster says that it is.
func TestPastedTokenGoesToTheNameInItsKubeconfig(t *testing.T) {
	other := newThief(t, idB) // its certificate, which the kubeconfig's CA signed, is for another name than the kubeconfig's
	_, o := options(t)
	pasteSecret(t, o, "s", agenttest.KubeconfigOf(t, other.Server, "https://b.example:6443", 0, time.Hour))
	object := naming(t, o, idB, "s", 1, endpoint(other.Server))
	payload.MarkCopy(object, payload.Meta{}, idB)
	p, _ := quiet(o)
	if got := try(t, p, idB); other.took.Load() > 0 || got.Access == apiconn.Ready {
		t.Errorf("sent %d times; %s: %s", other.took.Load(), got.Access, got.Message)
	}
}
