// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"testing"

	"github.com/roster-mesh/roster/agent/payload"
	"github.com/roster-mesh/roster/e2e/harness"
	"github.com/roster-mesh/roster/mesh/trust"
	"github.com/roster-mesh/roster/replica"
)

// What a member makes up: so many clusters, each of which publishes or removes as much as one may, and that is more than there is room for.
const (
	madeUp        = 12
	removalsOfOne = 2048  // that a member keeps of one author
	roomOfAll     = 16384 // that a member keeps of all
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
