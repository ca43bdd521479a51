// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"strings"
	"testing"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/ui/grouptest"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// A pair is as the worse of the two says, what cannot be read is not known, and a pair of which nobody is asked is neither.
func TestMeshLines(t *testing.T) {
	t.Parallel()
	own, there := group(4, 0), group(4, 0)
	there.Client = &clusters.Client{Context: "west"}
	there.Clusters[0].Status.Type, there.Clusters[1].Status.Type = v1alpha1.ClusterTypePeer, v1alpha1.ClusterTypeLocal
	grouptest.Fail(there.Clusters[0], "no route")
	grouptest.Fail(own.Clusters[2], "gone")

	m := meshOf([]Held{own, there}, nil)
	marks := func() (out []Mark) {
		for _, d := range m.Dots {
			out = append(out, d.Line.Mark)
		}
		for _, l := range m.Between {
			out = append(out, l.Mark)
		}
		return out
	}
	expect := func(want ...Mark) {
		t.Helper()
		got := marks()
		if len(got) != len(want) {
			t.Fatalf("lines %v, want %v", got, want)
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("lines %v, want %v", got, want)
			}
		}
	}
	// To 001, which says that it does not reach us; 002, 003, ourselves. Then 001 with 002 and with 003.
	expect(Bad, Bad, Good, Good, Good, Good)
	if title := m.Dots[0].Line.Title; title != "cluster-000 of cluster-001: fine; cluster-001 of cluster-000: no route" {
		t.Errorf("title %q", title)
	}
	if strings.Count(m.Unasked, "M") != 1 {
		t.Errorf("pairs of which nobody is asked: %s", m.Unasked)
	}
	there.Problem = "refused"
	m = meshOf([]Held{own, there}, nil)
	expect(Unknown, Bad, Good, Good, Unknown, Unknown)
}

// Dots of any number are apart from each other, and in the drawing.
func TestMeshPlaces(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2, 5, 25, 26, 60, 500} {
		m := meshOf([]Held{group(n, 0)}, nil)
		if len(m.Dots) != n {
			t.Fatalf("%d dots of %d clusters", len(m.Dots), n)
		}
		for i, a := range m.Dots {
			if a.X < a.R || a.Y < a.R || a.X > m.Width-a.R || a.Y > m.Height-a.R {
				t.Errorf("%d clusters: %s is out of the drawing", n, a.Name)
			}
			for _, b := range m.Dots[:i] {
				if dx, dy := a.X-b.X, a.Y-b.Y; dx*dx+dy*dy < 15*15 {
					t.Errorf("%d clusters: %s is on %s", n, a.Name, b.Name)
				}
			}
		}
	}
}

// What waits for a person, and which members are unhealthy, is told apart, and said once.
func TestSorted(t *testing.T) {
	t.Parallel()
	f := func(check, severity, message string) Finding {
		return Finding{Check: check, Severity: severity, Message: message}
	}
	waiting, unhealthy := sorted([]Finding{
		f("members", "error", "away"), f("members", "unknown", "starting"), f("members", "warning", "waits"),
		f("rules", "error", "torn"), f("rules", "error", "torn"),
	})
	text := func(all []Task) string {
		var out []string
		for _, t := range all {
			out = append(out, string(t.Mark)+" "+t.Message)
		}
		return strings.Join(out, ", ")
	}
	if got := text(waiting); got != "unknown waits, bad torn" {
		t.Errorf("waiting: %s", got)
	}
	if got := text(unhealthy); got != "bad away, unknown starting" {
		t.Errorf("unhealthy: %s", got)
	}
	// A rule whose source is not reached waits for that member; where all are reached, it says so itself.
	waits := Finding{Check: "rules", Severity: "error", Message: "waits", Reason: "SourceUnreachable"}
	if waiting, _ = sorted([]Finding{waits, f("members", "error", "away")}); len(waiting) > 0 {
		t.Errorf("waiting: %s", text(waiting))
	}
	if waiting, _ = sorted([]Finding{waits, f("members", "warning", "admit it")}); len(waiting) != 2 {
		t.Errorf("waiting: %s", text(waiting))
	}
}
