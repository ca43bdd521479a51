// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package admissions_test

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"

	"github.com/roster-mesh/roster/agent/admissions"
	"github.com/roster-mesh/roster/agent/agenttest"
	"github.com/roster-mesh/roster/agent/payload"
	"github.com/roster-mesh/roster/mesh/trust"
	"github.com/roster-mesh/roster/replica"
)

// overtaken is a replica in which something newer is merged while an admission is read.
type overtaken struct {
	*replica.Replica
	meanwhile func()
}

func (o *overtaken) Lookup(key replica.Key, origin string) (replica.Entry, bool) {
	e, ok := o.Replica.Lookup(key, origin)
	if meanwhile := o.meanwhile; meanwhile != nil && key.Kind == replica.KindAdmission {
		o.meanwhile = nil
		meanwhile()
	}
	return e, ok
}

// TestTheNewestAdmissionCounts: an admission that is taken back between being read and being taken does not count.
func TestTheNewestAdmissionCounts(t *testing.T) {
	author := agenttest.Signer(t, "author", agenttest.Key("author"))
	data, err := payload.EncodeAdmission(trust.Admission{PublicKey: agenttest.PublicKey("b")})
	if err != nil {
		t.Fatal(err)
	}
	table := trust.New(trust.Pin{ClusterID: "self", PublicKey: agenttest.PublicKey("self")}, trust.Options{})
	if err := table.Pin("author", agenttest.PublicKey("author")); err != nil {
		t.Fatal(err)
	}
	r, err := replica.New(replica.Options{Self: "self", PrivateKey: agenttest.Key("self"), Epoch: 1, Keyring: table})
	if err != nil {
		t.Fatal(err)
	}
	say := func(status replica.Status, data []byte) {
		msgs, err := author.Publish(payload.AdmissionKey("b"), status, data)
		if err == nil {
			_, _, err = r.Merge(msgs[0], "author")
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	read := &overtaken{Replica: r, meanwhile: func() { say(replica.Deleted, nil) }}
	a := admissions.New("self", table, read, slog.New(slog.DiscardHandler))
	r.Subscribe(a.Changed)
	say(replica.Live, data)
	if got := table.AdmittedBy("author"); len(got) > 0 {
		t.Errorf("it has taken back its admission, and admits %v", got)
	}
}

// TestBranchOfWhoHasEnded: what a cluster had admitted is its branch also after it has ended, until a person keeps that.
func TestBranchOfWhoHasEnded(t *testing.T) {
	table := trust.New(trust.Pin{ClusterID: "me", PublicKey: agenttest.PublicKey("me")}, trust.Options{})
	a := admissions.New("me", table, nil, slog.New(slog.DiscardHandler))
	if err := table.Pin("hub", agenttest.PublicKey("hub")); err != nil {
		t.Fatal(err)
	}
	for id, by := range map[string]string{"bad": "hub", "good": "hub", "both": "bad", "x": "bad"} {
		table.Admit(trust.Admission{Author: by, ClusterID: id, PublicKey: agenttest.PublicKey(id)})
	}
	table.Admit(trust.Admission{Author: "good", ClusterID: "both", PublicKey: agenttest.PublicKey("both")})
	table.Admit(trust.Admission{Author: "x", ClusterID: "y", PublicKey: agenttest.PublicKey("y")})
	for _, id := range []string{"bad", "good", "both", "x", "y"} {
		if err := table.Introduce(id, agenttest.PublicKey(id), "hub"); err != nil {
			t.Fatal(err)
		}
	}
	branch := func(when string, want ...string) {
		t.Helper()
		if got := a.Branch("bad"); !slices.Equal(got, want) {
			t.Errorf("%s: the branch is %v, want %v", when, got, want)
		}
	}
	branch("as a member", "x", "y")
	table.Remove("bad", agenttest.PublicKey("bad"), nil, false)
	table.Withdraw("bad", "x")
	table.Withdraw("bad", "both")
	branch("removed", "x", "y")
	table.Remove("y", agenttest.PublicKey("y"), nil, false)
	branch("without y", "x")
	table.Keep([]string{"x"})
	branch("kept")
}

// TestParents: what is shared is shared by the tree of dominators; of a cluster that has just come, by the word on which it is
// pinned; and who admitted somebody that has others leave has them below itself still.
func TestParents(t *testing.T) {
	table := trust.New(trust.Pin{ClusterID: "me", PublicKey: agenttest.PublicKey("me")}, trust.Options{})
	r, err := replica.New(replica.Options{Self: "me", PrivateKey: agenttest.Key("me"), Epoch: 1, Keyring: table})
	if err != nil {
		t.Fatal(err)
	}
	a := admissions.New("me", table, r, slog.New(slog.DiscardHandler))
	if err := table.Pin("bad", agenttest.PublicKey("bad")); err != nil {
		t.Fatal(err)
	}
	for _, by := range [][2]string{{"bad", "w"}, {"w", "v"}} {
		table.Admit(trust.Admission{Author: by[0], ClusterID: by[1], PublicKey: agenttest.PublicKey(by[1])})
		if err := table.Introduce(by[1], agenttest.PublicKey(by[1]), by[0]); err != nil {
			t.Fatal(err)
		}
	}
	is := func(when string, want map[string]string) {
		t.Helper()
		for id, parent := range want {
			if got := a.Parent(id); got != parent {
				t.Errorf("%s: %s is below %q, want %q", when, id, got, parent)
			}
		}
	}
	is("before", map[string]string{"bad": "me", "w": "bad", "v": "w", "nobody": ""})
	a.Look()
	is("after", map[string]string{"bad": "me", "w": "bad", "v": "w"})
	if got := a.Share(12, map[string]int{"bad": 9, "w": 9, "v": 9}); got["bad"] != 6 || got["w"] != 3 || got["v"] != 3 {
		t.Errorf("12 are shared as %v", got)
	}
	table.Remove("w", agenttest.PublicKey("w"), nil, true)
	a.Look()
	is("w has left", map[string]string{"v": "w", "w": "bad"})
	table.Remove("v", agenttest.PublicKey("v"), nil, true)
	a.Look()
	is("nobody is below it", map[string]string{"w": ""})
}

// BenchmarkTree is what it costs to find out who leads to whom among 500 members.
func BenchmarkTree(b *testing.B) {
	for name, by := range map[string]func(i int) string{
		"hub":   func(int) string { return "m0" },
		"chain": func(i int) string { return fmt.Sprint("m", i-1) },
	} {
		b.Run(name, func(b *testing.B) {
			table := trust.New(trust.Pin{ClusterID: "me", PublicKey: agenttest.PublicKey("me")}, trust.Options{})
			r, err := replica.New(replica.Options{Self: "me", PrivateKey: agenttest.Key("me"), Epoch: 1, Keyring: table})
			if err != nil {
				b.Fatal(err)
			}
			if err := table.Pin("m0", agenttest.PublicKey("m0")); err != nil {
				b.Fatal(err)
			}
			for i := 1; i < 500; i++ {
				id := fmt.Sprint("m", i)
				table.Admit(trust.Admission{Author: by(i), ClusterID: id, PublicKey: agenttest.PublicKey(id)})
				if err := table.Introduce(id, agenttest.PublicKey(id), by(i)); err != nil {
					b.Fatal(err)
				}
			}
			a := admissions.New("me", table, r, slog.New(slog.DiscardHandler))
			for b.Loop() {
				a.Vouch()
			}
		})
	}
}
