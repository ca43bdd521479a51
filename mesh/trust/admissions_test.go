// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestAdmissionPins: a cluster is pinned on the word of a member that admits it under its key, whoever brings its entry. Who
// signs admissions vouches for nobody else, and what ends admissions ends no pin.
func TestAdmissionPins(t *testing.T) {
	keys := testKeys(6)
	table := New(Pin{ClusterID: "self", PublicKey: keys[0]}, Options{})
	if err := errors.Join(table.Pin("h", keys[1]), table.Pin("m", keys[2])); err != nil {
		t.Fatal(err)
	}
	table.Admit(Admission{Author: "h", ClusterID: "self", PublicKey: keys[0]})
	table.Admit(Admission{Author: "m", ClusterID: "n", PublicKey: keys[4]})        // another key
	table.Admit(Admission{Author: "stranger", ClusterID: "n", PublicKey: keys[3]}) // no member
	table.Admit(Admission{Author: "n", ClusterID: "n", PublicKey: keys[3]})        // itself
	for _, introducer := range []string{"h", "m"} {
		if err := table.Introduce("n", keys[3], introducer); !errors.Is(err, ErrNotAdmitted) {
			t.Fatalf("n is pinned on the word of %s, or %v", introducer, err)
		}
	}
	table.Admit(Admission{Author: "h", ClusterID: "n", PublicKey: keys[3]})
	if err := table.Introduce("n", keys[3], "m"); err != nil {
		t.Fatal(err)
	}
	if got := table.Words("n"); !slices.Equal(got, []Word{{Author: "h", Signed: true}}) {
		t.Errorf("n is pinned on the word of %v", got)
	}
	table.Withdraw("h", "n")
	if got := table.Words("n"); !table.IsPeer("n") || !slices.Equal(got, []Word{{Author: "h"}}) {
		t.Errorf("n is pinned: %t, on the word of %v", table.IsPeer("n"), got)
	}
	table.Remove("h", keys[1], nil, false)
	if got := table.Words("n"); !table.IsPeer("n") || !slices.Equal(got, []Word{{Author: "self", For: "h"}}) {
		t.Errorf("n is pinned: %t, on the word of %v", table.IsPeer("n"), got)
	}
	if got := table.Own(); len(got) != 1 || got[0].ClusterID != "m" {
		t.Errorf("it admits %v", got)
	}
	table.Vouch([]string{"n", "self", "nobody"})
	if got := table.Own(); len(got) != 2 || got[1].ClusterID != "n" || got[1].Via != "" {
		t.Errorf("it answers for %v", got)
	}
}

// TestWordsOfWhoIsGone: a pin of an earlier run that names a member which ended before that was recorded stays on the word of this
// cluster, as one of the lost, whatever another member says of it.
func TestWordsOfWhoIsGone(t *testing.T) {
	keys := testKeys(4)
	table := New(Pin{ClusterID: "self", PublicKey: keys[0]}, Options{})
	pin := Pin{ClusterID: "n", PublicKey: keys[2], Introducer: "x", Past: []Word{{Author: "gone"}}}
	if err := errors.Join(table.Pin("x", keys[1]), table.Restore(pin)); err != nil {
		t.Fatal(err)
	}
	if got := table.Words("n"); !slices.Contains(got, Word{Author: "self", For: Lost}) {
		t.Errorf("n is a member on the word of %v", got)
	}
}

// TestMembersOfEarlierVersions: who signs no admissions vouches for whom it brings, and others may answer for those on its word,
// until it is removed.
func TestMembersOfEarlierVersions(t *testing.T) {
	keys := testKeys(6)
	table := New(Pin{ClusterID: "self", PublicKey: keys[0]}, Options{})
	if err := errors.Join(table.Pin("h", keys[1]), table.Pin("m", keys[2]), table.Introduce("n", keys[3], "m")); err != nil {
		t.Fatal(err)
	}
	if got := table.Words("n"); !slices.Equal(got, []Word{{Author: "m"}}) {
		t.Errorf("n is pinned on the word of %v", got)
	}
	table.Vouch([]string{"n"})
	if got, ok := table.OwnOf("n"); !ok || got.Via != "m" {
		t.Errorf("it answers for n as %v", got)
	}
	table.Admit(Admission{Author: "h", ClusterID: "o", PublicKey: keys[4], Via: "m"})
	table.Admit(Admission{Author: "h", ClusterID: "p", PublicKey: keys[5], Via: "m"})
	if err := table.Introduce("o", keys[4], "h"); err != nil {
		t.Fatal(err)
	}
	if got := table.Words("o"); !slices.Equal(got, []Word{{Author: "h", Via: "m", Signed: true}}) {
		t.Errorf("o is pinned on the word of %v", got)
	}
	table.Remove("m", keys[2], nil, false)
	if err := table.Introduce("p", keys[5], "h"); !errors.Is(err, ErrNotAdmitted) {
		t.Errorf("p is pinned on the word of who was removed: %v", err)
	}
	if got, ok := table.OwnOf("n"); !ok || got.Via != "m" {
		t.Errorf("it answers for n as %v", got)
	}
	table.Keep([]string{"n"})
	if got, ok := table.OwnOf("n"); !ok || got.Via != "" {
		t.Errorf("it answers for n as %v", got)
	}
}

// TestSignersWithoutAdmissions: a member that has admitted nobody signs for nobody, and vouches for nobody either, where its agent
// is known to sign.
func TestSignersWithoutAdmissions(t *testing.T) {
	keys := testKeys(5)
	table := New(Pin{ClusterID: "self", PublicKey: keys[0]}, Options{})
	if err := errors.Join(table.Pin("h", keys[1]), table.Introduce("n", keys[3], "h"), table.Introduce("m", keys[2], "h")); err != nil {
		t.Fatal(err)
	}
	table.Remove("h", keys[1], nil, true)
	if own := table.Own(); len(own) > 0 {
		t.Errorf("it admits %v, whom nobody here had admitted", own)
	}
	table.Signs("m", true)
	if err := table.Introduce("o", keys[4], "m"); !errors.Is(err, ErrNotAdmitted) {
		t.Errorf("o is pinned on the word of who signs none for it: %v", err)
	}
	table.Signs("m", false)
	if err := table.Introduce("o", keys[4], "m"); err != nil {
		t.Errorf("who signs none vouches: %v", err)
	}
}

// TestAdmittedAreAdmitted: whatever is pinned, admitted, withdrawn, introduced and removed, in any order, a key is pinned by an
// introduction only if a member admits it, or a member brings it that admits nobody and is not known to sign; and an authority's word counts.
func TestAdmittedAreAdmitted(t *testing.T) {
	keys := testKeys(6)
	ids := []string{"a", "b", "c", "d"}
	rapid.Check(t, func(t *rapid.T) {
		table := New(Pin{ClusterID: "self", PublicKey: keys[0]}, Options{Authorities: []Name{{ClusterID: "a"}}})
		held := map[string]map[string]Admission{} // author, subject
		signs := map[string]bool{}
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			id, other := rapid.SampledFrom(ids).Draw(t, "id"), rapid.SampledFrom(append(ids, "self")).Draw(t, "other")
			key := rapid.SampledFrom(keys[1:]).Draw(t, "key")
			switch rapid.IntRange(0, 6).Draw(t, "what") {
			case 0:
				_ = table.Pin(id, key)
			case 1:
				a := Admission{Author: id, ClusterID: other, PublicKey: key}
				if table.Admit(a); id != other {
					if held[id] == nil {
						held[id] = map[string]Admission{}
					}
					held[id][other] = a
				}
			case 2:
				table.Withdraw(id, other)
				delete(held[id], other)
			case 4:
				signs[id] = rapid.Bool().Draw(t, "signs")
				table.Signs(id, signs[id])
			case 3:
				table.Remove(id, key, nil, rapid.Bool().Draw(t, "left"))
			default:
				if !table.IsPeer(other) || table.IsPeer(id) {
					continue
				}
				err := table.Introduce(id, key, other)
				if err := allowed(table, held, signs[other], id, key, other, err); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// allowed is an error if an introduction that ended with err was decided against the rule.
func allowed(table *Table, held map[string]map[string]Admission, signs bool, id string, key ed25519.PublicKey, by string, err error) error {
	word := len(held[by]) == 0 && !signs
	for author, of := range held {
		a, ok := of[id]
		word = word || ok && a.PublicKey.Equal(key) && table.IsPeer(author)
	}
	switch {
	case err == nil && !word:
		return fmt.Errorf("%s is pinned, and no member admitted it", id)
	case errors.Is(err, ErrNotAdmitted) && word:
		return fmt.Errorf("%s is not pinned, and a member admitted it", id)
	}
	return nil
}
