// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"crypto/ed25519"
	"errors"
	"testing"
	"time"

	"github.com/roster-mesh/roster/agent/agenttest"
	"github.com/roster-mesh/roster/agent/store"
	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/syncrules/engine/quota"
)

// minted is an identity with a new key.
func minted(t *testing.T) (*Identity, *agenttest.APIServer, ed25519.PublicKey) {
	t.Helper()
	server, client := agenttest.NewAPIServer(t)
	i := New(store.New(client, "p"))
	key, err := i.Key(t.Context(), agenttest.IDA, nil)
	if err != nil {
		t.Fatal(err)
	}
	return i, server, key.Public().(ed25519.PublicKey)
}

func (i *Identity) publicKey(t *testing.T) ed25519.PublicKey {
	t.Helper()
	key, err := i.Key(t.Context(), agenttest.IDA, nil)
	if err != nil {
		t.Fatal(err)
	}
	return key.Public().(ed25519.PublicKey)
}

// TestKeyIsMadeOnce: no second key is made where one was recorded, in the Secret or in the Cluster object.
func TestKeyIsMadeOnce(t *testing.T) {
	i, server, first := minted(t)
	if !i.publicKey(t).Equal(first) {
		t.Error("the second start has another key")
	}
	if _, err := i.Key(t.Context(), agenttest.IDA, first); err != nil {
		t.Errorf("the recorded key is the one that is held: %v", err)
	}
	if _, err := i.Key(t.Context(), agenttest.IDA, agenttest.PublicKey(agenttest.IDB)); !errors.Is(err, ErrLost) {
		t.Errorf("another key is recorded: %v", err)
	}
	server.SetObject(store.IdentitySecret, nil)
	if _, err := i.Key(t.Context(), agenttest.IDA, first); !errors.Is(err, ErrLost) || server.Object(store.IdentitySecret) != nil {
		t.Errorf("the Secret was deleted: %v", err)
	}
}

// TestKeyIsReplacedOnce: a crash after the key was replaced does not replace it again, and the epoch continues.
func TestKeyIsReplacedOnce(t *testing.T) {
	i, _, old := minted(t)
	if _, err := i.OpenEpoch(t.Context(), 6); err != nil {
		t.Fatal(err)
	}
	var keys []ed25519.PublicKey
	for range 2 {
		if err := i.Replace(t.Context(), old); err != nil {
			t.Fatal(err)
		}
		keys = append(keys, i.publicKey(t))
	}
	if keys[0].Equal(old) || !keys[0].Equal(keys[1]) {
		t.Error("the key was not replaced once")
	}
	if epoch, err := i.OpenEpoch(t.Context(), 0); err != nil || epoch != 8 {
		t.Errorf("epoch %d: %v", epoch, err)
	}
}

// TestNextKeyIsTheOneThatWasNamed: what Next says, also after a restart, is the key that Replace puts in place; the one after
// that is another.
func TestNextKeyIsTheOneThatWasNamed(t *testing.T) {
	i, _, old := minted(t)
	next, err := i.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if again, err := i.Next(t.Context()); err != nil || !again.Equal(next) || next.Equal(old) || !i.publicKey(t).Equal(old) {
		t.Fatalf("next is %x, then %x, and was %x: %v", next, again, old, err)
	}
	for range 2 { // the second time changes nothing
		if err := i.Replace(t.Context(), old); err != nil || !i.publicKey(t).Equal(next) {
			t.Fatalf("the key is %x: %v", i.publicKey(t), err)
		}
	}
	if third, err := i.Next(t.Context()); err != nil || third.Equal(next) {
		t.Errorf("the key after it is the same: %v", err)
	}
}

// TestUnreadableKeyIsReplaced: leaving a group does not need the key that was lost.
func TestUnreadableKeyIsReplaced(t *testing.T) {
	i, _, old := minted(t)
	if err := i.store.SetKey(t.Context(), store.IdentitySecret, keyKey, []byte("nonsense")); err != nil {
		t.Fatal(err)
	}
	if _, err := i.Key(t.Context(), agenttest.IDA, nil); err == nil {
		t.Error("nonsense is a key")
	}
	if err := i.Replace(t.Context(), old); err != nil || i.publicKey(t).Equal(old) {
		t.Errorf("not replaced: %v", err)
	}
}

// TestResumeEpoch: an agent continues in the last epoch on its disk, unless a later one was recorded. An earlier one in
// the record means that the API server was restored, which is marked in the update that writes the epoch back.
func TestResumeEpoch(t *testing.T) {
	const mark = "mark"
	for _, c := range []struct {
		recorded   string
		held, want uint64
		rolledBack bool
		writes     int
	}{
		{recorded: "", held: 0, want: 1, writes: 1},
		{recorded: "4", held: 0, want: 5, writes: 1},
		{recorded: "4", held: 4, want: 4},
		{recorded: "5", held: 4, want: 6, writes: 1},
		{recorded: "3", held: 4, want: 4, rolledBack: true, writes: 1},
	} {
		i, server, _ := minted(t)
		if err := i.store.SetKey(t.Context(), store.IdentitySecret, epochKey, []byte(c.recorded)); err != nil {
			t.Fatal(err)
		}
		before, _ := server.Writes()
		epoch, err := i.ResumeEpoch(t.Context(), c.held, func(secret *kube.Secret) { secret.Data[mark] = []byte("x") })
		if after, _ := server.Writes(); err != nil || epoch != c.want || after-before != c.writes {
			t.Errorf("%+v: epoch %d after %d writes, %v", c, epoch, after-before, err)
		}
		secret, err := i.store.Read(t.Context(), store.IdentitySecret)
		if err != nil {
			t.Fatal(err)
		}
		last, err := lastEpoch(secret)
		if marked := len(secret.Data[mark]) > 0; err != nil || last != c.want || marked != c.rolledBack {
			t.Errorf("%+v: recorded %d, marked %t, %v", c, last, marked, err)
		}
	}
}

// TestEpochIsKept: the epoch that is published in is recorded again after a restore, and a later one stays.
func TestEpochIsKept(t *testing.T) {
	i, _, _ := minted(t)
	for _, c := range []struct{ held, want uint64 }{{7, 7}, {3, 7}, {8, 8}} {
		if err := i.KeepEpoch(t.Context(), c.held); err != nil {
			t.Fatal(err)
		}
		secret, err := i.store.Read(t.Context(), store.IdentitySecret)
		if err != nil {
			t.Fatal(err)
		}
		if last, err := lastEpoch(secret); err != nil || last != c.want {
			t.Errorf("with %d the recorded epoch is %d, %v", c.held, last, err)
		}
	}
}

// TestUnreadableEpoch: an unreadable epoch is an error and does not count as 0, or an epoch would be used twice.
func TestUnreadableEpoch(t *testing.T) {
	i, _, _ := minted(t)
	if err := i.store.SetKey(t.Context(), store.IdentitySecret, epochKey, []byte("four")); err != nil {
		t.Fatal(err)
	}
	if epoch, err := i.OpenEpoch(t.Context(), 0); err == nil {
		t.Errorf("it continues in epoch %d", epoch)
	}
	if epoch, err := i.ResumeEpoch(t.Context(), 4, nil); err == nil {
		t.Errorf("it continues in epoch %d", epoch)
	}
}

// TestQuotaAtStart: the first start has full accounts, one that follows at once has little, and one after a day has all.
func TestQuotaAtStart(t *testing.T) {
	i, server, _ := minted(t)
	at := time.Unix(1_000_000_000, 0)
	start := func(want quota.Limits) {
		t.Helper()
		if limits, err := i.QuotaAtStart(t.Context(), at); err != nil || limits != want {
			t.Errorf("%+v, %v; want %+v", limits, err, want)
		}
	}
	full := quota.DefaultLimits()
	start(full)
	start(full.AfterRestart(0))
	at = at.Add(100 * time.Second)
	start(full.AfterRestart(100 * time.Second))
	at = at.Add(-time.Hour) // the clock of the API server went back
	start(full.AfterRestart(0))
	at = at.Add(24 * time.Hour)
	start(full)
	if err := i.store.SetKey(t.Context(), store.IdentitySecret, startedKey, []byte("yesterday")); err != nil {
		t.Fatal(err)
	}
	start(full.AfterRestart(0))
	server.SetObject(store.IdentitySecret, nil)
	if _, err := i.QuotaAtStart(t.Context(), at); err == nil {
		t.Error("nothing was recorded, and there is no error")
	}
}
