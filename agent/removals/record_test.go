// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package removals

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
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

func (s secrets) Replace(_ context.Context, name string, data map[string][]byte) error {
	s[name] = data
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

// TestRemovalsAreRecorded: removals that need several Secrets are read back unchanged, and no Secret is too large.
func TestRemovalsAreRecorded(t *testing.T) {
	p := secrets{}
	want := someRemovals(t, 2*each+7)
	if err := Write(t.Context(), p, want); err != nil {
		t.Fatal(err)
	}
	n, largest := len(p), p.largest()
	if n != 3 || largest > 1<<20 {
		t.Errorf("%d Secrets, the largest with %d bytes", n, largest)
	}
	t.Logf("%d removals take %d bytes at most in a Secret", each, largest)
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
	list := someRemovals(t, each)
	var members []string
	for i := range 4000 {
		members = append(members, fmt.Sprintf("%0*d", replica.MaxOrigin, i))
	}
	for i := range list {
		list[i].Ordered, list[i].Waiting = true, members[:maxWaiting+i%2]
	}
	list[0].Waiting = members
	if err := Write(t.Context(), p, list); err != nil {
		t.Fatal(err)
	}
	largest := p.largest()
	t.Logf("%d removals take %d bytes", each, largest)
	if largest > 1<<20 {
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
