// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/agent/payload"
	"github.com/roster-mesh/roster/e2e/harness"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/mesh/trust"
	"github.com/roster-mesh/roster/replica"
)

// What a member makes up: so many clusters, each of which publishes or removes as much as one may, and that is more than there is room for.
const (
	madeUp        = 12
	bytesOfOne    = 8 << 20 // that a member keeps of what one publishes, and 64 MiB of what all do
	removalsOfOne = 2048    // that a member keeps of one author
	roomOfAll     = 16384   // that a member keeps of all
	keptRemovals  = roomOfAll + 4096
)

// TestStolenKeyLeavesRoom: a person in alpha has admitted mallory, whose key is stolen. Whatever that one and clusters that it makes up say
// to beta, there is room for what gamma and alpha say, which are honest.
func TestStolenKeyLeavesRoom(t *testing.T) {
	bin, err := harness.FindBinaries()
	if err != nil {
		t.Fatal(err)
	}
	g := &group{Fleet: ofTheirOwn(t, bin, "alpha", "beta", "gamma")}
	g.alpha, g.beta, g.gamma = g.Clusters[0], g.Clusters[1], g.Clusters[2]
	t.Log(agentctl(t, g, "join", "--context", "alpha", "--peer-context", "beta,gamma"))
	g.eventuallyWhole(t, within)
	m := g.mallory(t)

	t.Run("Rules", func(t *testing.T) { m.rules(t) })
	t.Run("Removals", func(t *testing.T) { m.removals(t) })
}

// thief has the key of a member, and those of the clusters that it has admitted.
type thief struct {
	*group
	key  ed25519.PrivateKey
	self *replica.Replica
	made []ghost
}

// ghost is a cluster that there is not.
type ghost struct {
	name string
	key  ed25519.PrivateKey
	self *replica.Replica
}

// mallory is a member that a person in alpha has admitted, without an agent. It admits clusters that there are not.
func (g *group) mallory(t *testing.T) *thief {
	t.Helper()
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	id := newID(9)
	apply(t, g.alpha, cluster("mallory", id, "", "")+"  mesh: {endpoints: [\"127.0.0.1:1\"], publicKey: "+base64.StdEncoding.EncodeToString(public)+"}\n")
	m := &thief{group: g, key: key, self: signer(t, id, key)}
	takenBy(t, g.alpha, key)
	say(t, g.alpha, key, publishes(t, m.self, payload.ClusterKey(id), invented(t, id, key))...)
	takenBy(t, g.beta, key)
	var says [][]byte
	for i := range madeUp {
		made := ghost{name: fmt.Sprint("ghost-", i)}
		if _, made.key, err = ed25519.GenerateKey(rand.Reader); err != nil {
			t.Fatal(err)
		}
		made.self = signer(t, made.name, made.key)
		admission, err := payload.EncodeAdmission(trust.Admission{PublicKey: made.key.Public().(ed25519.PublicKey)})
		if err != nil {
			t.Fatal(err)
		}
		says = append(says, publishes(t, m.self, payload.AdmissionKey(made.name), admission)...)
		says = append(says, publishes(t, made.self, payload.ClusterKey(made.name), invented(t, made.name, made.key))...)
		m.made = append(m.made, made)
	}
	say(t, g.beta, key, says...)
	for _, made := range m.made {
		takenBy(t, g.beta, made.key)
	}
	return m
}

// takenBy waits until the agent of a cluster takes who has a key for a member.
func takenBy(t *testing.T, c *harness.Cluster, key ed25519.PrivateKey) {
	t.Helper()
	eventually(t, "a member is taken by "+c.Name, within, func(context.Context) error {
		conn := taken(t, c, key)
		if conn == nil {
			return fmt.Errorf("%s refuses it", c.Name)
		}
		return conn.Close()
	})
}

// rules: each of those that it made up publishes as much as one may, and together that is more than there is room for. All rules of gamma
// arrive in beta nevertheless.
func (m *thief) rules(t *testing.T) {
	before := metric(t, m.beta, "roster_replica_refused_total")
	for _, made := range m.made {
		var says [][]byte
		for size := 0; size < bytesOfOne; {
			name := fmt.Sprint("flood-", size)
			data, err := payload.EncodeFeature(&v1alpha1.ClusterFeature{ObjectMeta: metav1.ObjectMeta{
				Name: name, Annotations: map[string]string{"example.com/flood": strings.Repeat("x", 60<<10)}, // what fits a frame
			}})
			if err != nil {
				t.Fatal(err)
			}
			for _, message := range publishes(t, made.self, payload.FeatureKey(name), data) {
				says, size = append(says, message), size+len(message)
			}
		}
		say(t, m.beta, made.key, says...)
	}
	refused, held := metric(t, m.beta, "roster_replica_refused_total")-before, metric(t, m.beta, "roster_replica_bytes")
	if t.Logf("%.0f MiB are held, and %.0f times there was no room", held/(1<<20), refused); refused == 0 {
		t.Error("that is no flood")
	}

	const many = 200
	selected := map[string]any{}
	for i := range 14 {
		selected[fmt.Sprint("example.com/", i)] = strings.Repeat("x", 63)
	}
	for i := range many {
		rule := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
			"groupVersionKind": map[string]any{"version": "v1", "kind": "ConfigMap"},
			"rules": []any{map[string]any{"match": []any{map[string]any{
				"namespaces": []any{harness.Namespace}, "labels": []any{map[string]any{"matchLabels": selected}},
			}}}},
		}}}
		rule.SetAPIVersion(v1alpha1.SchemeGroupVersion.String())
		rule.SetKind("ResourceSyncRule")
		rule.SetName(fmt.Sprintf("honest-%03d", i))
		if _, err := m.gamma.Dynamic.Resource(harness.Rules()).Create(t.Context(), rule, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "all rules of gamma are in beta", afterFault, func(ctx context.Context) error {
		copies := metav1.ListOptions{LabelSelector: v1alpha1.LabelOwnerClusterID + "=" + clusterID(t, m.gamma)}
		list, err := m.beta.Dynamic.Resource(harness.Rules()).List(ctx, copies)
		if err == nil && len(list.Items) != many {
			err = fmt.Errorf("of %d there are %d", many, len(list.Items))
		}
		return err
	})
}

// removals: it and those that it made up remove clusters that nobody knows, more than beta keeps. A person in alpha removes gamma, which is
// introduced in beta, and it: both are gone there.
func (m *thief) removals(t *testing.T) {
	rejected, fresh := received(t, m.beta, "rejected"), received(t, m.beta, "fresh")
	sent := m.removesMany(t, m.self, "m")
	for _, made := range m.made {
		sent += m.removesMany(t, made.self, made.name)
	}
	rejected, fresh = received(t, m.beta, "rejected")-rejected, received(t, m.beta, "fresh")-fresh
	if t.Logf("of %d removals %d are kept, and %d find no room", sent, fresh, rejected); sent < keptRemovals || rejected < sent-keptRemovals || fresh < roomOfAll/2 {
		t.Error("that is no flood")
	}
	for _, each := range [][]string{{"gamma"}, {"mallory", "--with-admitted"}} {
		_, _ = m.Agentctl(lasting(t), append([]string{"remove", "--context", "alpha", "--timeout", "2s"}, each...)...) // who is made up confirms nothing
		eventually(t, each[0]+" is gone in beta", within, absent(m.beta, harness.Clusters(), "", each[0]))
	}
	eventually(t, "and so is whom it made up", within, absent(m.beta, harness.Clusters(), "", m.made[0].name))
}

// removesMany has an author remove clusters that nobody knows, as many as are kept of one.
func (m *thief) removesMany(t *testing.T, author *replica.Replica, name string) int {
	t.Helper()
	says := make([][]byte, 0, removalsOfOne)
	for i := range removalsOfOne {
		r, err := author.SignRemoval(fmt.Sprint(name, "-", i), make([]byte, ed25519.PublicKeySize), "", "", 0)
		if err != nil {
			t.Fatal(err)
		}
		says = append(says, r.Message())
	}
	say(t, m.beta, m.key, says...)
	return len(says)
}

// received is how many messages turned out to be this for the agent of a cluster.
func received(t *testing.T, c *harness.Cluster, result string) int {
	t.Helper()
	page, err := c.AgentHTTP(t.Context(), "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	counts, err := sums([]byte(page), "roster_mesh_messages_total", func(label func(string) string) string { return label("result") })
	if err != nil {
		t.Fatal(err)
	}
	return int(counts[result])
}
