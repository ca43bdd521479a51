// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"testing"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/mesh"
	"github.com/roster-mesh/roster/replica/journal"
)

func secretWith(name string, data map[string]string) map[string]any {
	encoded := map[string]any{}
	for key, value := range data {
		encoded[key] = base64.StdEncoding.EncodeToString([]byte(value))
	}
	return map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": name, "namespace": "p"}, "data": encoded}
}

// charterWith is a charter at an API server that has this record, where the last epoch was the fourth.
func charterWith(t *testing.T, record map[string]string) charter {
	t.Helper()
	key, err := mesh.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	pem, err := mesh.MarshalPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	_, client := objectServer(t, map[string]map[string]any{
		v1alpha1.AgentsSecret: secretWith(v1alpha1.AgentsSecret, record),
		identitySecret:        secretWith(identitySecret, map[string]string{epochKey: "4", identityKey: string(pem)}),
	})
	return charter{&private{client: client, namespace: "p"}, key.Public().(ed25519.PublicKey)}
}

func (c charter) value(t *testing.T, key string) string {
	t.Helper()
	secret, err := c.read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return string(secret.Data[key])
}

func (c charter) epoch(t *testing.T) uint64 {
	t.Helper()
	secret, err := c.private.client.Secrets("p").Read(t.Context(), identitySecret)
	if err != nil {
		t.Fatal(err)
	}
	epoch, err := lastEpoch(secret)
	if err != nil {
		t.Fatal(err)
	}
	return epoch
}

// TestTakeOffice: who leads the group of the record takes back what others said without a leader, and opens an epoch
// after a recovery, once; who leads another group has no office.
func TestTakeOffice(t *testing.T) {
	own := journal.Status{Group: "g", ServerID: "x"}
	c := charterWith(t, map[string]string{"group": "g", "founder": "x", "survivors": `{"a:1":{"serverID":"y"}}`})
	if err := c.takeOffice(t.Context(), own, 4); err != nil || c.value(t, "survivors") != "" || c.epoch(t) != 4 {
		t.Errorf("%v, survivors %q, epoch %d", err, c.value(t, "survivors"), c.epoch(t))
	}
	if err := c.takeOffice(t.Context(), journal.Status{Group: "h"}, 4); !errors.Is(err, journal.ErrTurned) {
		t.Errorf("another group takes office: %v", err)
	}
	c = charterWith(t, map[string]string{"group": "g", "founder": "x", "recovered": "true"})
	if err := c.hold(t.Context(), own, nil); err != nil || c.value(t, "recovered") != "true" {
		t.Errorf("the recovery was forgotten before there was an epoch: %v", err)
	}
	for range 2 {
		if err := c.takeOffice(t.Context(), own, 6); err != nil || c.value(t, "recovered") != "" || c.epoch(t) != 7 {
			t.Errorf("%v, recovered %q, epoch %d", err, c.value(t, "recovered"), c.epoch(t))
		}
	}
}

// TestCharterIsCompared: what another agent has changed is not overwritten.
func TestCharterIsCompared(t *testing.T) {
	c := charterWith(t, map[string]string{"group": "g", "founder": "x"})
	for _, before := range []journal.Record{{}, {Group: "g"}, {Group: "h", Founder: "x"}} {
		if err := c.Replace(t.Context(), before, journal.Record{Group: "i", Founder: "y"}); !errors.Is(err, errOvertaken) {
			t.Errorf("%v was replaced: %v", before, err)
		}
	}
	now := journal.Record{Group: "i", Founder: "y"}
	if err := c.Replace(t.Context(), journal.Record{Group: "g", Founder: "x"}, now); err != nil {
		t.Fatal(err)
	}
	if got, err := c.Read(t.Context()); err != nil || got != now {
		t.Errorf("%v, %v", got, err)
	}
}

// TestCharterOfAnotherKey: the record of another key is replaced by who has the cluster's present one, and by nobody
// else.
func TestCharterOfAnotherKey(t *testing.T) {
	c := charterWith(t, map[string]string{"group": "g", "founder": "x", "key": "other"})
	before := journal.Record{Group: "g", Founder: "x", Key: "other"}
	old := charter{c.private, make([]byte, ed25519.PublicKeySize)}
	if err := old.Replace(t.Context(), before, journal.Record{Group: "h", Founder: "y", Key: v1alpha1.RequestKey(old.key)}); !errors.Is(err, journal.ErrTurned) {
		t.Errorf("an agent with a key that the cluster had replaces the record: %v", err)
	}
	now := journal.Record{Group: "i", Founder: "z", Key: v1alpha1.RequestKey(c.key)}
	if err := c.Replace(t.Context(), before, now); err != nil {
		t.Fatal(err)
	}
	if got, err := c.Read(t.Context()); err != nil || got != now {
		t.Errorf("%v, %v", got, err)
	}
}

// TestCharterGetsItsKey: a leader adds the key to a record that does not say it.
func TestCharterGetsItsKey(t *testing.T) {
	c := charterWith(t, map[string]string{"group": "g", "founder": "x"})
	if err := c.hold(t.Context(), journal.Status{Group: "g"}, nil); err != nil || c.value(t, "key") != v1alpha1.RequestKey(c.key) || c.value(t, "founder") != "x" {
		t.Errorf("%v, key %q, founder %q", err, c.value(t, "key"), c.value(t, "founder"))
	}
}

// TestSurvivors: agents say that they have no leader, for the group that the record names, and not after a recovery
// was asked for.
func TestSurvivors(t *testing.T) {
	c := charterWith(t, map[string]string{"group": "g", "founder": "x", "survivors": "{"})
	for _, at := range []struct{ address, group string }{{"a:1", "g"}, {"b:1", "g"}, {"c:1", "old"}} {
		if err := c.survive(t.Context(), at.address, at.group, v1alpha1.AgentSurvivor{ServerID: "s", Term: 2, Index: 3}); err != nil {
			t.Fatal(err)
		}
	}
	if got := c.value(t, "survivors"); got != `{"a:1":{"serverID":"s","term":2,"index":3},"b:1":{"serverID":"s","term":2,"index":3}}` {
		t.Error(got)
	}
	c = charterWith(t, map[string]string{"group": "g", "founder": "x", "recovered": "true"})
	if err := c.survive(t.Context(), "a:1", "g", v1alpha1.AgentSurvivor{ServerID: "s"}); err != nil || c.value(t, "survivors") != "" {
		t.Errorf("%v, %s", err, c.value(t, "survivors"))
	}
}

// TestReadyWhileFollowing: an agent that follows is ready when it has a leader, and one that leads when it has caught up.
func TestReadyWhileFollowing(t *testing.T) {
	h := &health{}
	for i, step := range []struct {
		do   func()
		want string
	}{
		{func() { h.follow("alone") }, "alone"},
		{func() { h.following("") }, ""},
		{func() { h.following("lost") }, "lost"},
		{h.lead, "not caught up with the local API server yet"},
		{func() { h.following("") }, "not caught up with the local API server yet"},
		{h.ready, ""},
		{func() { h.waitFor("no address") }, "no address"},
		{func() { h.waitFor("") }, ""},
		{func() { h.waitFor("no address") }, "no address"},
		{func() { h.follow("elects") }, "elects"},
		{h.lead, "not caught up with the local API server yet"},
	} {
		if step.do(); h.notReady() != step.want {
			t.Errorf("%d: %q, not %q", i, h.notReady(), step.want)
		}
	}
}

// TestWhyEnded: a session that ends by itself is not taken for a disk that fails, though its term ends with it.
func TestWhyEnded(t *testing.T) {
	g := &group{options: Options{DataDir: "d"}}
	broken := errors.New("no space left")
	for _, c := range []struct{ term, session, want error }{
		{nil, errStartAgain, errStartAgain},
		{journal.ErrClosed, errStartAgain, errStartAgain},
		{journal.ErrClosed, journal.ErrTurned, journal.ErrTurned},
		{context.Canceled, nil, nil},
		{journal.ErrLost, context.Canceled, journal.ErrLost},
		{broken, context.Canceled, broken},
	} {
		if got := g.whyEnded(c.term, c.session); !errors.Is(got, c.want) {
			t.Errorf("%v and %v: %v", c.term, c.session, got)
		}
	}
}
