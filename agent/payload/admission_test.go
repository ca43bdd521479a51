// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package payload

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/roster-mesh/roster/mesh/trust"
)

func encoded(t testing.TB, a trust.Admission) []byte {
	t.Helper()
	data, err := EncodeAdmission(a)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestAdmission(t *testing.T) {
	key := bytes.Repeat([]byte{7}, 32)
	for _, via := range []string{"", "c"} {
		want := trust.Admission{Author: "a", ClusterID: "b", PublicKey: key, Via: via, Edge: via == ""}
		got, err := DecodeAdmission("a", "b", encoded(t, want))
		if err != nil || got.Author != "a" || got.ClusterID != "b" || !got.PublicKey.Equal(want.PublicKey) || got.Via != via || got.Edge != want.Edge {
			t.Errorf("%+v became %+v, %v", want, got, err)
		}
	}
	good := string(encoded(t, trust.Admission{PublicKey: key}))
	for name, c := range map[string]struct{ origin, subject, payload string }{
		"of itself":          {"a", "a", good},
		"of no cluster":      {"a", "B/c", good},
		"no JSON":            {"a", "b", "{"},
		"no key":             {"a", "b", "{}"},
		"a short key":        {"a", "b", `{"publicKey":"AAAA"}`},
		"an unknown role":    {"a", "b", strings.Replace(good, "{", `{"role":"core",`, 1)},
		"a role in words":    {"a", "b", strings.Replace(good, "{", `{"role":"full",`, 1)},
		"via its author":     {"a", "b", strings.Replace(good, "{", `{"via":"a",`, 1)},
		"via itself":         {"a", "b", strings.Replace(good, "{", `{"via":"b",`, 1)},
		"via no cluster":     {"a", "b", strings.Replace(good, "{", `{"via":"a/b",`, 1)},
		"more than a key is": {"a", "b", good + strings.Repeat(" ", maxAdmission)},
	} {
		if _, err := DecodeAdmission(c.origin, c.subject, []byte(c.payload)); !errors.Is(err, ErrPayload) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAdmissionOfAFullMember is what versions that know no roles read: of another one they take none.
func TestAdmissionOfAFullMember(t *testing.T) {
	if got := string(encoded(t, trust.Admission{PublicKey: []byte{7}})); got != `{"publicKey":"Bw=="}` {
		t.Errorf("it is %s", got)
	}
}

func FuzzDecodeAdmission(f *testing.F) {
	f.Add("a", "b", encoded(f, trust.Admission{PublicKey: bytes.Repeat([]byte{7}, 32), Via: "c", Edge: true}))
	f.Fuzz(func(t *testing.T, origin, subject string, data []byte) {
		a, err := DecodeAdmission(origin, subject, data)
		if err != nil {
			if !errors.Is(err, ErrPayload) {
				t.Fatal(err)
			}
			return
		}
		again, err := DecodeAdmission(origin, subject, encoded(t, a))
		if err != nil || !again.PublicKey.Equal(a.PublicKey) || again.Via != a.Via || again.Edge != a.Edge {
			t.Fatalf("%+v became %+v, %v", a, again, err)
		}
	})
}
