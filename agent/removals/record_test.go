// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package removals

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/agent/agenttest"
	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/replica"
	"github.com/roster-mesh/roster/replica/removalguard"
)

// secrets are those of a namespace.
type secrets map[string]map[string][]byte

func (s secrets) Namespace() string { return "p" }

func (s secrets) Read(_ context.Context, name string) (*kube.Secret, error) {
	if data, ok := s[name]; ok {
		return &kube.Secret{Data: data}, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, name)
}

// Replace takes what an API server takes.
func (s secrets) Replace(_ context.Context, name string, data map[string][]byte) error {
	size := 0
	for _, value := range data {
		size += len(value)
	}
	if size > 1<<20 {
		return fmt.Errorf("Secret %s has %d bytes", name, size)
	}
	s[name] = maps.Clone(data)
	return nil
}

// largest is the size of the largest one in an object.
func (s secrets) largest() (most int) {
	for _, data := range s {
		size := 0
		for key, value := range data {
			size += len(key) + len(value)
		}
		most = max(most, size)
	}
	return most
}

// someRemovals are removals by one member, of keys that nobody has.
func someRemovals(t *testing.T, n int) []Removal {
	t.Helper()
	r := agenttest.Signer(t, agenttest.IDA, agenttest.Key(agenttest.IDA))
	out := make([]Removal, n)
	for i := range out {
		key := sha256.Sum256(fmt.Append(nil, i))
		signed, err := r.SignRemoval(fmt.Sprintf("%0*d", replica.MaxOrigin, i), key[:], strings.Repeat("n", replica.MaxName), strings.Repeat("m", replica.MaxName), 1767323045)
		if err != nil {
			t.Fatal(err)
		}
		out[i] = Removal{Removal: signed, UnknownKey: i%3 == 0, Ended: i%2 == 0, Ordered: i == 0, Waiting: map[bool][]string{true: {"x"}}[i == 0]}
		out[i].Standing = removalguard.Standing{Held: i%3 == 0, Charge: map[bool]*removalguard.Charge{true: {Unit: "u", To: []string{"a"}}}[i%3 == 1]}
	}
	return out
}

// longIDs are the longest clusterIDs.
func longIDs(n int) (ids []string) {
	for i := range n {
		ids = append(ids, fmt.Sprintf("%0*d", replica.MaxOrigin, i))
	}
	return ids
}

// TestLargestRemovalsAreRecorded: whatever is recorded of each removal, no Secret is too large. What grows in a Secret that is full already, as
// earlier versions filled one, moves to others, and is not missing in all of them while it does.
func TestLargestRemovalsAreRecorded(t *testing.T) {
	p, list := secrets{}, someRemovals(t, 1500)
	if err := Write(t.Context(), p, list); err != nil {
		t.Fatal(err)
	}
	full := map[string][]byte{}
	for _, data := range p {
		for key, value := range data {
			if len(full) < 500 {
				full[key] = value
			}
		}
	}
	p[Secret], p[secretName(Secret, 1)] = full, map[string][]byte{}
	for i := range list {
		list[i].Waiting, list[i].Standing.Charge = longIDs(maxWaiting), &removalguard.Charge{Unit: list[i].ClusterID, To: longIDs(9), Above: longIDs(8)}
	}
	missing := 0
	if err := Write(t.Context(), watched{p, func() { missing = max(missing, len(full)-p.have(full)) }}, list); err != nil {
		t.Fatal(err)
	}
	got, err := Read(t.Context(), p, slog.New(slog.DiscardHandler))
	if largest := p.largest(); err != nil || len(got) != len(list) || missing > 0 || largest > maxBytes {
		t.Errorf("%d of %d in %d Secrets, the largest with %d bytes; meanwhile %d were missing; %v", len(got), len(list), len(p), largest, missing, err)
	}
	for _, r := range got {
		if r.Standing.Charge == nil || len(r.Standing.Charge.To) != 9 {
			t.Fatalf("an old record is left of %s", r.ClusterID)
		}
	}
}

// watched calls a function after each write.
type watched struct {
	secrets
	wrote func()
}

func (w watched) Replace(ctx context.Context, name string, data map[string][]byte) error {
	defer w.wrote()
	return w.secrets.Replace(ctx, name, data)
}

// have counts the keys that are in one of the Secrets.
func (s secrets) have(keys map[string][]byte) (n int) {
	for key := range keys {
		for _, data := range s {
			if _, ok := data[key]; ok {
				n++
				break
			}
		}
	}
	return n
}

// TestFewSecretsAreWritten: what changes little is written to few Secrets, and of what is recorded no more nothing is left.
func TestFewSecretsAreWritten(t *testing.T) {
	p, list, writes := secrets{}, someRemovals(t, 3000), 0
	counted := watched{p, func() { writes++ }}
	for want, change := range map[int]func(){0: func() {}, 1: func() { list[7].Waiting = longIDs(1) }} {
		if err := Write(t.Context(), p, list); err != nil {
			t.Fatal(err)
		}
		change()
		if writes = 0; Write(t.Context(), counted, list) != nil || writes != want {
			t.Errorf("%d writes to %d Secrets, want %d", writes, len(p), want)
		}
	}
	if err := Write(t.Context(), p, list[:1]); err != nil {
		t.Fatal(err)
	}
	if got, err := Read(t.Context(), p, slog.New(slog.DiscardHandler)); err != nil || len(got) != 1 {
		t.Errorf("%d are left: %v", len(got), err)
	}
}

// TestHeldRemovalsAreRecordedApart: an earlier version, which reads the Secrets of those that are in effect, finds none that is held, also where
// they were among these before. What it has carried out meanwhile is in effect.
func TestHeldRemovalsAreRecordedApart(t *testing.T) {
	p, list := secrets{}, someRemovals(t, 6)
	for i := range list {
		list[i].Standing = removalguard.Standing{}
	}
	if err := Write(t.Context(), p, list); err != nil {
		t.Fatal(err)
	}
	early := maps.Clone(p[Secret])
	for i := range 4 {
		list[i].Standing.Held = true
	}
	if err := Write(t.Context(), p, list); err != nil || len(p[Secret]) != 2 || len(p[heldSecret]) != 4 {
		t.Fatalf("%d are among those in effect, %d are held: %v", len(p[Secret]), len(p[heldSecret]), err)
	}
	counts := func(want int) {
		t.Helper()
		got, err := Read(t.Context(), p, slog.New(slog.DiscardHandler))
		held := len(slices.DeleteFunc(slices.Clone(got), func(r Removal) bool { return !r.Standing.Held }))
		if err != nil || len(got) != 6 || held != want {
			t.Errorf("of %d, %d are held, want %d: %v", len(got), held, want, err)
		}
	}
	counts(4)
	list[0].Standing.Held = false
	released := 0
	if err := Write(t.Context(), watched{p, func() { released = max(released, 6-p.have(early)) }}, list); err != nil || released > 0 {
		t.Errorf("%d were missing: %v", released, err)
	}
	counts(3)
	p[Secret] = early
	counts(0)
}

// TestBranchIsRecordedOnce: which clusters go with the head of a branch is in the record of that head alone, up to a bound.
func TestBranchIsRecordedOnce(t *testing.T) {
	p, list := secrets{}, someRemovals(t, 300)
	for i := range list {
		list[i].Standing = removalguard.Standing{Charge: &removalguard.Charge{Unit: list[5].ClusterID, To: []string{"a"}, Branch: longIDs(maxBranch + 1)}}
	}
	if err := Write(t.Context(), p, list); err != nil {
		t.Fatal(err)
	}
	got, err := Read(t.Context(), p, slog.New(slog.DiscardHandler))
	if err != nil || len(got) != len(list) {
		t.Fatal(len(got), err)
	}
	for _, r := range got {
		if want := map[bool]int{true: maxBranch}[r.ClusterID == list[5].ClusterID]; len(r.Standing.Charge.Branch) != want {
			t.Errorf("%d are recorded with %s, want %d", len(r.Standing.Charge.Branch), r.ClusterID, want)
		}
	}
	if len(list[5].Standing.Charge.Branch) != maxBranch+1 {
		t.Error("what is recorded changed what is held")
	}
}

// TestRemovalsAreRecorded: removals that need several Secrets are read back unchanged, and no Secret is too large.
func TestRemovalsAreRecorded(t *testing.T) {
	p := secrets{}
	want := someRemovals(t, 1500)
	if err := Write(t.Context(), p, want); err != nil {
		t.Fatal(err)
	}
	if n, largest := len(p), p.largest(); n < 3 || largest > maxBytes {
		t.Errorf("%d Secrets, the largest with %d bytes", n, largest)
	}
	got, err := Read(t.Context(), p, slog.New(slog.DiscardHandler))
	if err != nil || len(got) != len(want) {
		t.Fatal(len(got), err)
	}
	for _, w := range want {
		i := slices.IndexFunc(got, func(g Removal) bool { return g.ClusterID == w.ClusterID })
		if i < 0 || !slices.Equal(got[i].Message(), w.Message()) || got[i].UnknownKey != w.UnknownKey || got[i].Ended != w.Ended || got[i].Ordered != w.Ordered || !slices.Equal(got[i].Waiting, w.Waiting) ||
			got[i].Standing.Held != w.Standing.Held || (got[i].Standing.Charge == nil) != (w.Standing.Charge == nil) {
			t.Fatalf("%s came back as %+v", w.ClusterID, got[max(i, 0)])
		}
	}
}

// TestRecordWithManyUnconfirmed: removals in a large group that almost no member has confirmed fit into their Secrets,
// and it is known that every member is to be asked.
func TestRecordWithManyUnconfirmed(t *testing.T) {
	p := secrets{}
	list := someRemovals(t, 500)
	members := longIDs(4000)
	for i := range list {
		list[i].Ordered, list[i].Waiting = true, members[:maxWaiting+i%2]
	}
	list[0].Waiting = members
	if err := Write(t.Context(), p, list); err != nil {
		t.Fatal(err)
	}
	largest := p.largest()
	if largest > maxBytes {
		t.Errorf("a Secret has %d bytes", largest)
	}
	if len(list[0].Waiting) != len(members) {
		t.Error("what is recorded changed what is held")
	}
	got, err := Read(t.Context(), p, slog.New(slog.DiscardHandler))
	if err != nil || len(got) != len(list) {
		t.Fatal(len(got), err)
	}
	for _, g := range got {
		if g.AskAll == (len(g.Waiting) > 0) || len(g.Waiting) > maxWaiting {
			t.Fatalf("%s is awaited by %d, all: %t", g.ClusterID, len(g.Waiting), g.AskAll)
		}
	}
}
