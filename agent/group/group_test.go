// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package group

import (
	"context"
	"crypto/ed25519"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/roster-mesh/roster/agent/agenttest"
	"github.com/roster-mesh/roster/agent/health"
	"github.com/roster-mesh/roster/agent/identity"
	"github.com/roster-mesh/roster/agent/store"
	"github.com/roster-mesh/roster/replica/journal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// optionsOf are the options of a single agent that is the whole group, in a cluster with a new key.
func optionsOf(t *testing.T) (Options, *agenttest.APIServer) {
	t.Helper()
	server, client := agenttest.NewAPIServer(t)
	s := store.New(client, "p")
	i := identity.New(s)
	key, err := i.Key(t.Context(), agenttest.IDA, nil)
	if err != nil {
		t.Fatal(err)
	}
	return Options{
		DataDir: t.TempDir(), Address: "alone:1", Peers: []string{"alone:1"}, MeshListen: "127.0.0.1:0", ClusterID: agenttest.IDA,
		Key: key, Store: s, Identity: i, Health: health.New(), Log: slog.New(slog.DiscardHandler),
	}, server
}

func enter(t *testing.T, o Options) *Group {
	t.Helper()
	o.Health.Follow(NotEntered)
	g, err := Enter(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// run enters and runs until lead was called, as an agent does. The agent that founds a group enters twice.
func run(t *testing.T, o Options, lead func(context.Context, *Group, *journal.Term) error) error {
	t.Helper()
	for led := false; ; {
		g := enter(t, o)
		err := g.Run(t.Context(), func(ctx context.Context, term *journal.Term) error {
			led = true
			return lead(ctx, g, term)
		})
		if led || !errors.Is(err, journal.ErrOtherGroup) {
			return err
		}
	}
}

// TestTermLastsUntilLeadReturns: an elected agent is no longer a follower, has the place in the mesh, and may claim the
// leadership. When lead returns by itself, Run returns its error, and port and directory are free.
func TestTermLastsUntilLeadReturns(t *testing.T) {
	t.Parallel()
	o, _ := optionsOf(t)
	var names []string
	for range 2 {
		err := run(t, o, func(ctx context.Context, g *Group, term *journal.Term) error {
			if line := o.Health.NotReady(); !strings.Contains(line, "not caught up") {
				t.Errorf("the leader is not ready for %q", line)
			}
			if address, here := g.place(); !here || address != o.Address || !g.Status().Leads {
				t.Errorf("the place of the cluster is at %q, here: %t", address, here)
			}
			term.Append(nil)
			if err := errors.Join(term.Wait(), g.ClaimLeadership(ctx, 0), g.Front().Open().Close()); err != nil {
				t.Error(err)
			}
			names = append(names, g.Status().Group)
			return journal.ErrOtherGroup
		})
		if !errors.Is(err, journal.ErrOtherGroup) {
			t.Errorf("it ended for %v", err)
		}
		if line := o.Health.NotReady(); !strings.Contains(line, "elect a leader") {
			t.Errorf("afterwards it is not ready for %q", line)
		}
	}
	if len(names) != 2 || names[0] != names[1] {
		t.Errorf("the groups are %q", names)
	}
}

// TestContextOfLeadEndsWithTerm: the context of lead ends when the term ends.
func TestContextOfLeadEndsWithTerm(t *testing.T) {
	t.Parallel()
	o, _ := optionsOf(t)
	failed := errors.New("what leads")
	err := run(t, o, func(ctx context.Context, _ *Group, term *journal.Term) error {
		term.End()
		<-ctx.Done()
		return failed
	})
	if !errors.Is(err, failed) {
		t.Error(err)
	}
}

// TestRunReturnsNilWhenCanceled: the end of the context is no error.
func TestRunReturnsNilWhenCanceled(t *testing.T) {
	t.Parallel()
	o, _ := optionsOf(t)
	g := enter(t, o)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := g.Run(ctx, nil); err != nil {
		t.Error(err)
	}
}

// TestEnterErrorNamesTheFlag: the error names the flag to change, and nothing stays open.
func TestEnterErrorNamesTheFlag(t *testing.T) {
	t.Parallel()
	o, _ := optionsOf(t)
	g := enter(t, o)
	other := o
	if _, err := Enter(t.Context(), other); !errors.Is(err, journal.ErrInUse) || !strings.Contains(err.Error(), "--data-dir "+o.DataDir) {
		t.Errorf("the same directory: %v", err)
	}
	other.DataDir, other.MeshListen = t.TempDir(), g.Front().Siblings().Addr().String()
	if _, err := Enter(t.Context(), other); err == nil || !strings.Contains(err.Error(), "--mesh-listen: cannot open the mesh port") {
		t.Errorf("the same port: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := g.Run(ctx, nil); err != nil {
		t.Error(err)
	}
}

// TestKeyChanged: an agent without a leader notices that the cluster has another key.
func TestKeyChanged(t *testing.T) {
	o, server := optionsOf(t)
	g := &Group{options: o}
	if g.keyChanged(t.Context()) {
		t.Error("it is the same key")
	}
	if err := o.Identity.Replace(t.Context(), publicKey(o.Key)); err != nil || !g.keyChanged(t.Context()) {
		t.Errorf("another key is not noticed: %v", err)
	}
	server.SetObject(store.IdentitySecret, nil)
	if !g.keyChanged(t.Context()) {
		t.Error("a key that was lost is not noticed")
	}
	server.SetObject(store.IdentitySecret, []byte(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"roster-identity"}}`))
	if g.keyChanged(t.Context()) {
		t.Error("a Secret that cannot be read is no other key")
	}
}

// TestMessagesNameWhatToDo: messages about a group name the agents to start, or the agent that is waited for.
func TestMessagesNameWhatToDo(t *testing.T) {
	g := &Group{options: Options{Address: "c:1"}}
	for want, line := range map[string]string{
		"":                       g.behind(journal.Status{Leader: "a:1"}),
		"gets it from a:1":       g.behind(journal.Status{Leader: "a:1", Behind: true}),
		"no agent of":            g.noLeader(journal.Status{}),
		"2 of a:1, b:1, c:1":     g.noLeader(journal.Status{Servers: []string{"a:1", "b:1", "c:1"}}),
		"recover --survivor c:1": g.noLeader(journal.Status{Servers: []string{"c:1"}}),
	} {
		if !strings.Contains(line, want) || (want == "") != (line == "") {
			t.Errorf("%q is not in %q", want, line)
		}
	}
}

// TestTermError: the error of lead is not taken for a disk failure, although the term ends with it.
func TestTermError(t *testing.T) {
	g := &Group{options: Options{DataDir: "d"}}
	broken := errors.New("no space left")
	for _, c := range []struct{ term, lead, want error }{
		{nil, ErrOtherKey, ErrOtherKey},
		{journal.ErrClosed, ErrOtherKey, ErrOtherKey},
		{journal.ErrClosed, journal.ErrOtherGroup, journal.ErrOtherGroup},
		{context.Canceled, nil, nil},
		{journal.ErrLost, context.Canceled, journal.ErrLost},
		{broken, context.Canceled, broken},
	} {
		if got := g.termError(c.term, c.lead); !errors.Is(got, c.want) {
			t.Errorf("%v and %v: %v", c.term, c.lead, got)
		}
	}
}

// TestFollowersMergeNothing: the keyring of a follower is empty.
func TestFollowersMergeNothing(t *testing.T) {
	var keys noKeys
	_, pinned := keys.Sponsor(agenttest.IDB, nil, agenttest.IDA)
	if _, ok := keys.Key(agenttest.IDB); ok || pinned || keys.Introduce(agenttest.IDB, make(ed25519.PublicKey, ed25519.PublicKeySize), agenttest.IDA) == nil {
		t.Error("a follower knows a key")
	}
}

// TestCollector: there are metrics as soon as there is a group.
func TestCollector(t *testing.T) {
	t.Parallel()
	o, _ := optionsOf(t)
	var g *Group
	registry := prometheus.NewRegistry()
	registry.MustRegister(NewCollector(func() *Group { return g }))
	count := func() int {
		families, err := registry.Gather()
		if err != nil {
			t.Error(err)
		}
		return len(families)
	}
	if n := count(); n != 0 {
		t.Errorf("%d metrics without a group", n)
	}
	err := run(t, o, func(_ context.Context, entered *Group, _ *journal.Term) error {
		g = entered
		families, err := registry.Gather()
		if err != nil {
			return err
		}
		for _, f := range families {
			want := map[string]float64{"roster_agents_leads": 1, "roster_agents_led": 1, "roster_agents_members": 1}
			if value, ok := want[f.GetName()]; ok && f.GetMetric()[0].GetGauge().GetValue() != value {
				t.Errorf("%s is %v", f.GetName(), f)
			}
		}
		if len(families) != 4 {
			t.Errorf("%d metrics", len(families))
		}
		return ErrOtherKey
	})
	if !errors.Is(err, ErrOtherKey) {
		t.Error(err)
	}
}
