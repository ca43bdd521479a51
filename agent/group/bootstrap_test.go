// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package group

import (
	"crypto/ed25519"
	"errors"
	"strconv"
	"testing"

	"github.com/roster-mesh/roster/agent/agenttest"
	"github.com/roster-mesh/roster/agent/identity"
	"github.com/roster-mesh/roster/agent/store"
	"github.com/roster-mesh/roster/kube/api/agentrecord"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/replica/journal"
)

// recordWith is a bootstrap record with these values, in a cluster whose last epoch is 4.
func recordWith(t *testing.T, record map[string]string) bootstrapRecord {
	t.Helper()
	_, client := agenttest.NewAPIServer(t)
	s := store.New(client, "p")
	i := identity.New(s)
	key, err := i.Key(t.Context(), agenttest.IDA, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := i.OpenEpoch(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	data := map[string][]byte{}
	for name, value := range record {
		data[name] = []byte(value)
	}
	if err := s.Replace(t.Context(), agentrecord.Name, data); err != nil {
		t.Fatal(err)
	}
	return bootstrapRecord{s, i, publicKey(key)}
}

func (b bootstrapRecord) value(t *testing.T, key string) string {
	t.Helper()
	secret, err := b.read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return string(secret.Data[key])
}

func (b bootstrapRecord) epoch(t *testing.T) uint64 {
	t.Helper()
	secret, err := b.store.Read(t.Context(), store.IdentitySecret)
	if err != nil {
		t.Fatal(err)
	}
	epoch, err := strconv.ParseUint(string(secret.Data["epoch"]), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return epoch
}

// TestClaimLeadership: the leader of the recorded group deletes the reports of agents without a leader, and opens one
// epoch after a recovery. The leader of another group is refused.
func TestClaimLeadership(t *testing.T) {
	own := journal.Status{Group: "g", ServerID: "x"}
	b := recordWith(t, map[string]string{"group": "g", "founder": "x", "survivors": `{"a:1":{"serverID":"y"}}`})
	if err := b.claimLeadership(t.Context(), own, 4); err != nil || b.value(t, "survivors") != "" || b.epoch(t) != 4 {
		t.Errorf("%v, survivors %q, epoch %d", err, b.value(t, "survivors"), b.epoch(t))
	}
	if err := b.claimLeadership(t.Context(), journal.Status{Group: "h"}, 4); !errors.Is(err, journal.ErrOtherGroup) {
		t.Errorf("the leader of another group leads this one: %v", err)
	}
	b = recordWith(t, map[string]string{"group": "g", "founder": "x", "recovered": "true"})
	if err := b.confirm(t.Context(), own, nil); err != nil || b.value(t, "recovered") != "true" {
		t.Errorf("the recovery was forgotten before there was an epoch: %v", err)
	}
	for range 2 {
		if err := b.claimLeadership(t.Context(), own, 6); err != nil || b.value(t, "recovered") != "" || b.epoch(t) != 7 {
			t.Errorf("%v, recovered %q, epoch %d", err, b.value(t, "recovered"), b.epoch(t))
		}
	}
}

// TestRecordIsCompared: a change by another agent is not overwritten.
func TestRecordIsCompared(t *testing.T) {
	b := recordWith(t, map[string]string{"group": "g", "founder": "x"})
	for _, before := range []journal.Record{{}, {Group: "g"}, {Group: "h", Founder: "x"}} {
		if err := b.Replace(t.Context(), before, journal.Record{Group: "i", Founder: "y"}); !errors.Is(err, errOvertaken) {
			t.Errorf("%v was replaced: %v", before, err)
		}
	}
	now := journal.Record{Group: "i", Founder: "y"}
	if err := b.Replace(t.Context(), journal.Record{Group: "g", Founder: "x"}, now); err != nil {
		t.Fatal(err)
	}
	if got, err := b.Read(t.Context()); err != nil || got != now {
		t.Errorf("%v, %v", got, err)
	}
}

// TestRecordOfAnotherKey: only an agent with the cluster's present key replaces a record of another key.
func TestRecordOfAnotherKey(t *testing.T) {
	b := recordWith(t, map[string]string{"group": "g", "founder": "x", "key": "other"})
	before := journal.Record{Group: "g", Founder: "x", Key: "other"}
	old := bootstrapRecord{b.store, b.identity, make([]byte, ed25519.PublicKeySize)}
	if err := old.Replace(t.Context(), before, journal.Record{Group: "h", Founder: "y", Key: v1alpha1.RequestKey(old.key)}); !errors.Is(err, journal.ErrOtherGroup) {
		t.Errorf("an agent with a key that the cluster had replaces the record: %v", err)
	}
	now := journal.Record{Group: "i", Founder: "z", Key: v1alpha1.RequestKey(b.key)}
	if err := b.Replace(t.Context(), before, now); err != nil {
		t.Fatal(err)
	}
	if got, err := b.Read(t.Context()); err != nil || got != now {
		t.Errorf("%v, %v", got, err)
	}
}

// TestRecordGetsItsKey: a leader adds the key to a record without one.
func TestRecordGetsItsKey(t *testing.T) {
	b := recordWith(t, map[string]string{"group": "g", "founder": "x"})
	if err := b.confirm(t.Context(), journal.Status{Group: "g"}, nil); err != nil || b.value(t, "key") != v1alpha1.RequestKey(b.key) || b.value(t, "founder") != "x" {
		t.Errorf("%v, key %q, founder %q", err, b.value(t, "key"), b.value(t, "founder"))
	}
}

// TestSurvivors: agents record that they have no leader, for the recorded group only, and not after a recovery was
// requested.
func TestSurvivors(t *testing.T) {
	b := recordWith(t, map[string]string{"group": "g", "founder": "x", "survivors": "{"})
	for _, at := range []struct{ address, group string }{{"a:1", "g"}, {"b:1", "g"}, {"c:1", "old"}} {
		if err := b.addSurvivor(t.Context(), at.address, at.group, agentrecord.Survivor{ServerID: "s", Term: 2, Index: 3}); err != nil {
			t.Fatal(err)
		}
	}
	if got := b.value(t, "survivors"); got != `{"a:1":{"serverID":"s","term":2,"index":3},"b:1":{"serverID":"s","term":2,"index":3}}` {
		t.Error(got)
	}
	b = recordWith(t, map[string]string{"group": "g", "founder": "x", "recovered": "true"})
	if err := b.addSurvivor(t.Context(), "a:1", "g", agentrecord.Survivor{ServerID: "s"}); err != nil || b.value(t, "survivors") != "" {
		t.Errorf("%v, %s", err, b.value(t, "survivors"))
	}
}
