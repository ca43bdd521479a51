// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/roster-mesh/roster/agent/agenttest"
	"github.com/roster-mesh/roster/agent/apiconn"
	"github.com/roster-mesh/roster/agent/directory"
	"github.com/roster-mesh/roster/agent/informers"
	"github.com/roster-mesh/roster/agent/store"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const idA, idB, idC = agenttest.IDA, agenttest.IDB, agenttest.IDC

// options are those of cluster A, which has no other Cluster object, and whose agent meets no other.
func options(t *testing.T) (*agenttest.APIServer, Options) {
	t.Helper()
	api, client := agenttest.NewAPIServer(t)
	log := slog.New(slog.DiscardHandler)
	return api, Options{
		ClusterID: idA, Namespace: "n", Client: client, Store: store.New(client, "p"), Meter: apiconn.NewMeter(),
		Directory: &directory.Directory{
			Registry: informers.New(client, "n", log), Replica: agenttest.Signer(t, idA, agenttest.Key(idA)),
			Gone: func(string) bool { return false }, Pinned: func(string) bool { return false }, Swapped: func(string) bool { return false },
			PrivateNamespace: "p",
		},
		Ask:  func(context.Context, string) ([]byte, error) { return nil, nil },
		Pace: func(*rest.Config) {}, Now: time.Now, Log: log,
		Share: func(total int, wants map[string]int) map[string]int { return wants },
	}
}

// hookCalls counts the calls of hooks.
type hookCalls struct{ access, connection, credential atomic.Int32 }

// quiet are peers that do not run.
func quiet(o Options) (*Peers, *hookCalls) {
	p, calls := New(o), &hookCalls{}
	p.Hooks = Hooks{
		Access:         func(string) { calls.access.Add(1) },
		Connection:     func(string) { calls.connection.Add(1) },
		CredentialKept: func(string) { calls.credential.Add(1) },
	}
	return p, calls
}

// list creates the Cluster object of a cluster, with those API endpoints.
func list(t *testing.T, o Options, id string, addresses ...string) *v1alpha1.Cluster {
	t.Helper()
	c := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "cluster-" + id}, Spec: v1alpha1.ClusterSpec{ClusterID: types.UID(id)}}
	for _, a := range addresses {
		c.Spec.KubernetesAPIEndpoints = append(c.Spec.KubernetesAPIEndpoints, v1alpha1.KubernetesAPIEndpoint{ServerAddress: a})
	}
	if err := o.Directory.Registry.Put(c); err != nil {
		t.Fatal(err)
	}
	return c
}

// identity answers as the API server of a cluster that is asked for its ID.
func identity(id string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"kube-system","uid":%q}}`, id)
	}
}

func TestSameFailureIsReportedOnce(t *testing.T) {
	_, o := options(t)
	p, calls := quiet(o)
	p.report(idB, apiconn.Unreachable, "no answer")
	since := p.Peer(idB).State.Since
	p.report(idB, apiconn.Unreachable, "no answer")
	if n := calls.access.Load(); n != 1 {
		t.Errorf("the same failure is reported %d times", n)
	}
	p.report(idB, apiconn.Unreachable, "refused")
	if got, n := p.Peer(idB).State, calls.access.Load(); n != 2 || got.Since != since || got.Message != "refused" {
		t.Errorf("another message for the same access: %+v, reported %d times", got, n)
	}
}

// A link lasts as long as its cluster is listed and in the group: it finds a credential, sets its connection, and
// removes it at the end.
func TestLinkLastsAsLongAsItsCluster(t *testing.T) {
	server := httptest.NewTLSServer(identity(idB))
	defer server.Close()
	_, o := options(t)
	var gone atomic.Bool
	o.Directory.Gone = func(string) bool { return gone.Load() }
	issued := agenttest.KubeconfigOf(t, server, server.URL, 0, time.Hour)
	o.Ask = func(context.Context, string) ([]byte, error) { return issued, nil }
	p, changed := New(o), make(chan struct{}, 1)
	wake := func(string) {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	p.Hooks = Hooks{Access: wake, Connection: wake, CredentialKept: wake}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	until := func(what string, is func(Peer, map[apiconn.Access]int) bool) {
		t.Helper()
		for deadline := time.After(time.Minute); ; {
			counts, _, _ := p.count()
			if is(p.Peer(idB), counts) {
				return
			}
			select {
			case <-changed:
			case <-deadline:
				t.Fatalf("%s: %+v, %v", what, p.Peer(idB), counts)
			case <-time.After(10 * time.Millisecond): // no hook reports the end of a link
			}
		}
	}
	p.Changed(idA)
	p.Changed(idC)
	if counts, _, _ := p.count(); len(counts) > 0 {
		t.Errorf("links to itself or to a cluster that nobody lists: %v", counts)
	}
	list(t, o, idB, server.URL)
	p.Changed(idB)
	until("connected", func(now Peer, counts map[apiconn.Access]int) bool {
		return now.State.Access == apiconn.Ready && now.Issued && now.Source != nil && now.Client != nil && counts[apiconn.Ready] == 1
	})
	if _, ready, first := p.count(); time.Until(first) < 50*time.Minute || time.Until(first) > time.Hour || !ready[idB] {
		t.Errorf("the first credential expires at %v; ready: %v", first, ready)
	}
	if ref, ok := p.CredentialRef(idB); !ok || ref != (v1alpha1.NamespacedName{Namespace: "p", Name: "peer-" + idB}) {
		t.Errorf("its credential is in %v, %t", ref, ok)
	}
	gone.Store(true)
	p.Detach(idB)
	until("detached", func(now Peer, counts map[apiconn.Access]int) bool {
		return !now.Issued && now.Source == nil && now.Client == nil && len(counts) == 0
	})
	if _, ok := p.CredentialRef(idB); ok {
		t.Error("the credential of a cluster that is gone is still named")
	}
	gone.Store(false)
	p.Changed(idB)
	until("connected again", func(now Peer, _ map[apiconn.Access]int) bool { return now.Source != nil && now.Issued })
	cancel()
	if err := <-ended; err != nil || p.Peer(idB).Source != nil {
		t.Errorf("after the end it is %+v, %v", p.Peer(idB), err)
	}
}
