// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package profiles

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roster-mesh/roster/agent/agenttest"
	"github.com/roster-mesh/roster/agent/directory"
	"github.com/roster-mesh/roster/agent/health"
	"github.com/roster-mesh/roster/agent/informers"
	"github.com/roster-mesh/roster/agent/payload"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/replica"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// room has profiles, the clusters that they are about, and an API server that counts writes.
type room struct {
	t             *testing.T
	p             *Profiles
	registry      *informers.Registry
	problems      health.Problems
	directory     *directory.Directory
	gone, unknown map[string]bool // that is not pinned
	issued        map[string]v1alpha1.NamespacedName
	frozen        bool
	swapped       bool // a person here has pinned the keys of all clusters
	events        []string
	writes        int
	err           error // of the next write
	drops         bool  // the server's CRD has no accessProviders
}

func newRoom(t *testing.T) *room {
	t.Helper()
	_, client := agenttest.NewAPIServer(t)
	r := &room{t: t, registry: informers.New(client, "cluster-registry", slog.New(slog.DiscardHandler)), gone: map[string]bool{}, unknown: map[string]bool{}, issued: map[string]v1alpha1.NamespacedName{}}
	held, err := replica.New(replica.Options{Self: agenttest.IDA, PrivateKey: agenttest.Key(agenttest.IDA), Epoch: 1, Keyring: ring{}})
	if err != nil {
		t.Fatal(err)
	}
	r.directory = &directory.Directory{Registry: r.registry, Replica: held, Gone: func(id string) bool { return r.gone[id] }, Pinned: func(id string) bool { return !r.unknown[id] }, PrivateNamespace: "private", Swapped: func(string) bool { return r.swapped }}
	r.p = New(Options{
		Flags: Flags{ClusterProfiles: true, Namespace: "inventory"}, ClusterID: agenttest.IDA, Client: client, Registry: r.registry, Directory: r.directory,
		CredentialRef: func(id string) (v1alpha1.NamespacedName, bool) { ref, issued := r.issued[id]; return ref, issued },
		Frozen:        func() bool { return r.frozen }, Events: r, Problem: r.problems.Reporter("profiles"),
		Now: func() time.Time { return time.Unix(1000, 0) }, Log: slog.New(slog.DiscardHandler),
	})
	r.p.objects = func(schema.GroupVersionKind) writer { return r }
	r.p.shelf.serve(profileKinds()[0])
	r.p.shelf.replace(nil)
	return r
}

// ring has the keys of all clusters.
type ring struct{ replica.Keyring }

func (ring) Key(id string) (ed25519.PublicKey, bool)                  { return agenttest.PublicKey(id), true }
func (ring) Sponsor(string, ed25519.PublicKey, string) (string, bool) { return "", true }

// publish has a cluster sign its Cluster object.
func (r *room) publish(c *v1alpha1.Cluster) {
	r.t.Helper()
	id := string(c.Spec.ClusterID)
	data, err := payload.EncodeCluster(c)
	if err != nil {
		r.t.Fatal(err)
	}
	messages, err := agenttest.Signer(r.t, id, agenttest.Key(id)).Publish(payload.ClusterKey(id), replica.Live, data)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, message := range messages {
		if _, _, err := r.directory.Replica.Merge(message, id); err != nil {
			r.t.Fatal(err)
		}
	}
}

func (r *room) Event(_ schema.GroupVersionKind, about metav1.Object, _, reason, message string) {
	r.events = append(r.events, about.GetName()+" "+reason+" "+message)
}

// store does a write, and delivers the result as the watch does.
func (r *room) store(p *clusterProfile) (*clusterProfile, error) {
	if r.writes++; r.err != nil {
		return nil, r.err
	}
	now := *p
	if r.drops {
		now.Status.AccessProviders = nil
	}
	now.ResourceVersion = strconv.Itoa(r.writes)
	r.p.shelf.put(now.Name, &now)
	return &now, nil
}

func (r *room) Create(_ context.Context, p *clusterProfile) (*clusterProfile, error) {
	now := *p
	now.UID, now.Status = types.UID("uid of "+p.Name), profileStatus{} // as a status subresource has it
	return r.store(&now)
}

func (r *room) Change(_ context.Context, _, now *clusterProfile) (*clusterProfile, error) {
	return r.store(now)
}

func (r *room) ChangeStatus(_ context.Context, _, now *clusterProfile) (*clusterProfile, error) {
	return r.store(now)
}

func (r *room) Delete(_ context.Context, name string, pre *metav1.Preconditions) error {
	if r.writes++; pre == nil || pre.UID == nil || pre.ResourceVersion == nil {
		r.t.Errorf("%s is deleted without preconditions", name)
	}
	r.p.shelf.put(name, nil)
	return r.err
}

// reconcile reconciles a profile, and says how many writes that took.
func (r *room) reconcile(name string) int {
	r.t.Helper()
	before := r.writes
	if err := r.p.reconcile(r.t.Context(), name); err != nil {
		r.t.Fatal(err)
	}
	return r.writes - before
}

func (r *room) wantWrites(name string, want int) {
	r.t.Helper()
	if got := r.reconcile(name); got != want {
		r.t.Fatalf("%d writes, want %d", got, want)
	}
}

func (r *room) held(name string) *clusterProfile {
	have, _, _ := r.p.shelf.get(name)
	return have
}

func (r *room) put(objects ...metav1.Object) {
	r.t.Helper()
	if err := r.registry.Put(objects...); err != nil {
		r.t.Fatal(err)
	}
}

func TestLifeOfAProfile(t *testing.T) {
	r := newRoom(t)
	beta := agenttest.Cluster("beta", agenttest.IDB)
	r.put(agenttest.Cluster("alpha", agenttest.IDA), beta)
	r.wantWrites("beta", 2) // the object, its status
	r.wantWrites("beta", 0)
	have := r.held("beta")
	if have.Spec.ClusterManager.Name != Manager || have.Labels[labelManager] != Manager || have.Labels[labelMemberID] != agenttest.IDB || have.Spec.DisplayName != "beta" {
		t.Fatalf("created %+v", have)
	}
	// A person chooses the display name, and cannot take a label away.
	changed := *have
	changed.Spec.DisplayName, changed.Labels = "Beta in the lab", nil
	r.p.shelf.put("beta", &changed)
	r.wantWrites("beta", 1)
	if have = r.held("beta"); have.Spec.DisplayName != "Beta in the lab" || have.Labels[labelManager] != Manager {
		t.Fatalf("changed to %+v", have)
	}
	// A version that is reported is one write.
	reported := beta.DeepCopy()
	reported.Status.Version = "v1.36.3"
	r.put(reported)
	r.wantWrites("beta", 1)
	r.wantWrites("beta", 0)
}

// A profile is deleted only with proof.
func TestProfileIsDeletedWithProof(t *testing.T) {
	r := newRoom(t)
	beta := agenttest.Cluster("beta", agenttest.IDB)
	r.put(beta)
	r.reconcile("beta")
	if err := r.registry.Drop(beta); err != nil {
		t.Fatal(err)
	}
	r.wantWrites("beta", 0) // a member whose Cluster is missing here will be back, also after a restart with an empty replica
	r.unknown[agenttest.IDB], r.frozen = true, true
	r.wantWrites("beta", 0) // the API server went back in time
	r.frozen = false
	r.wantWrites("beta", 1)
	if r.held("beta") != nil {
		t.Fatal("it is still there")
	}
	// Of a cluster that was removed from the group, before its Cluster object is.
	delete(r.unknown, agenttest.IDB)
	r.put(beta)
	r.reconcile("beta")
	r.gone[agenttest.IDB] = true
	r.wantWrites("beta", 1)
	r.wantWrites("beta", 0)
	// Of one that has another name here now.
	delete(r.gone, agenttest.IDB)
	r.reconcile("beta")
	if err := r.registry.Drop(beta); err != nil {
		t.Fatal(err)
	}
	r.put(agenttest.Cluster("beta-0b000000", agenttest.IDB))
	r.wantWrites("beta-0b000000", 2)
	r.wantWrites("beta", 1)
}

// A cluster that is built again has the name of the old one and is another cluster: what others have said of the old one is
// not true of it. A label alone may have been edited.
func TestProfileOfAnotherClusterIsReplaced(t *testing.T) {
	r := newRoom(t)
	old := agenttest.Cluster("beta", agenttest.IDB)
	r.put(old)
	r.reconcile("beta")
	theirs := *r.held("beta")
	theirs.Status.AccessProviders = []accessProvider{{Name: "cloud"}}
	theirs.Labels = map[string]string{labelManager: Manager, labelMemberID: agenttest.IDC}
	r.p.shelf.put("beta", &theirs)
	r.wantWrites("beta", 1)
	if have := r.held("beta"); have.Labels[labelMemberID] != agenttest.IDB || len(have.Status.AccessProviders) != 1 {
		t.Fatalf("after the label was edited: %+v", have)
	}
	if err := r.registry.Drop(old); err != nil {
		t.Fatal(err)
	}
	r.put(agenttest.Cluster("beta", agenttest.IDC))
	r.frozen = true
	r.wantWrites("beta", 0)
	r.frozen = false
	r.wantWrites("beta", 1)
	if r.held("beta") != nil {
		t.Fatal("it is still there")
	}
	r.wantWrites("beta", 2)
	if have := r.held("beta"); have.Labels[labelMemberID] != agenttest.IDC || len(have.Status.AccessProviders) != 0 {
		t.Fatalf("of the new cluster: %+v", have)
	}
}

// Without the label that says which cluster it is about, nothing is known of a profile.
func TestProfileOfNobodyStays(t *testing.T) {
	r := newRoom(t)
	r.p.shelf.put("x", &clusterProfile{ObjectMeta: metav1.ObjectMeta{Name: "x", UID: "1", ResourceVersion: "1"}, Spec: profileSpec{ClusterManager: clusterManager{Manager}}})
	r.wantWrites("x", 0)
}

func TestForeignProfileIsLeftAlone(t *testing.T) {
	r := newRoom(t)
	r.put(agenttest.Cluster("beta", agenttest.IDB))
	theirs := &clusterProfile{ObjectMeta: metav1.ObjectMeta{Name: "beta", UID: "1"}, Spec: profileSpec{ClusterManager: clusterManager{"fleet"}}}
	r.p.shelf.put("beta", theirs)
	r.wantWrites("beta", 0)
	r.wantWrites("beta", 0)
	if len(r.events) != 1 || !strings.Contains(r.events[0], `beta ProfileNotPublished ClusterProfile inventory/beta is of the manager "fleet"`) {
		t.Fatalf("events: %q", r.events)
	}
	r.gone[agenttest.IDB] = true
	r.wantWrites("beta", 0)
	delete(r.gone, agenttest.IDB)
	r.p.shelf.put("beta", nil) // they have deleted it
	r.wantWrites("beta", 2)
}

// A CRD that lacks a field drops it. That is no reason to write it again.
func TestWhatIsDroppedIsNotWrittenAgain(t *testing.T) {
	r := newRoom(t)
	r.drops = true
	beta := agenttest.Cluster("beta", agenttest.IDB)
	beta.Spec.AuthInfo.SecretRef.Name, beta.Spec.AuthInfo.SecretRef.Namespace = "s", "n"
	beta.Spec.KubernetesAPIEndpoints = append(beta.Spec.KubernetesAPIEndpoints, agentEndpoint(t))
	r.put(beta)
	r.wantWrites("beta", 2)
	r.wantWrites("beta", 0)
}

// Who may edit Cluster objects and not read Secrets can neither have a program send a credential that was issued here to
// another address, nor have it send that of one cluster to another one.
func TestProviderIsNotFromTheClusterObject(t *testing.T) {
	r := newRoom(t)
	provider := func(name string) string {
		t.Helper()
		r.reconcile(name)
		providers := r.held(name).Status.AccessProviders
		if len(providers) == 0 {
			return "none"
		}
		extension := providers[0].Cluster["extensions"].([]any)[0].(map[string]any)["extension"].(map[string]any)
		return fmt.Sprintf("%s with %s/%s", providers[0].Cluster["server"], extension["namespace"], extension["name"])
	}
	is := func(what, name, want string) {
		t.Helper()
		if got := provider(name); got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	signed := agenttest.Cluster("beta", agenttest.IDB)
	signed.Spec.KubernetesAPIEndpoints = []v1alpha1.KubernetesAPIEndpoint{agentEndpoint(t)}
	edited := signed.DeepCopy()
	edited.Spec.KubernetesAPIEndpoints[0].ServerAddress = "evil.example.com"
	edited.Spec.AuthInfo.SecretRef = v1alpha1.NamespacedName{Namespace: "private", Name: "peer-b"}
	other := agenttest.Cluster("other", agenttest.IDC)
	other.Spec.KubernetesAPIEndpoints, other.Spec.AuthInfo = edited.Spec.KubernetesAPIEndpoints, edited.Spec.AuthInfo
	r.put(edited, other)
	is("the Secret of another cluster", "other", "none")
	is("before it was reached", "beta", "none")
	r.issued[agenttest.IDB] = edited.Spec.AuthInfo.SecretRef
	is("before it has signed an address", "beta", "none")
	r.publish(signed)
	is("with an address of its own", "beta", "https://b.example.com:6443 with private/peer-b")
	is("the Secret of another cluster", "other", "none")
	delete(r.issued, agenttest.IDB)
	is("after a restart, before it was reached", "beta", "https://b.example.com:6443 with private/peer-b")
	pasted := edited.DeepCopy()
	pasted.Spec.AuthInfo.SecretRef = v1alpha1.NamespacedName{Namespace: "cluster-registry", Name: "pasted"}
	r.put(pasted)
	is("with a pasted credential, signed by who was introduced", "beta", "none")
	r.swapped = true
	is("with a pasted credential, signed after a swap", "beta", "https://b.example.com:6443 with cluster-registry/pasted")
	other.Spec.AuthInfo.SecretRef = pasted.Spec.AuthInfo.SecretRef
	r.put(other)
	is("not in the mesh, with a pasted credential", "other", "https://evil.example.com with cluster-registry/pasted")
}

// Nothing is concluded before there is a complete list, and nothing without the CRD.
func TestNothingBeforeTheList(t *testing.T) {
	r := newRoom(t)
	r.put(agenttest.Cluster("beta", agenttest.IDB))
	r.p.shelf.serve(profileKinds()[1])
	r.wantWrites("beta", 0)
	r.p.shelf.replace(nil)
	r.wantWrites("beta", 2)
	r.p.shelf.serve(schema.GroupVersionKind{})
	r.wantWrites("beta", 0)
}

// Switched off, it does nothing, and remembers nothing that it should do.
func TestSwitchedOff(t *testing.T) {
	p := New(Options{Log: slog.New(slog.DiscardHandler)})
	p.Changed(agenttest.IDB)
	p.All()
	if err := p.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
}
