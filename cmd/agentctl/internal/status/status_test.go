// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
)

func grown() []groupView {
	first := groupView{Context: "east", Cluster: "alpha", Members: []memberView{
		{Name: "alpha", State: "Local", Synced: "True"}, {Name: "beta", State: "Alive", Synced: "True"},
	}}
	second := first
	second.Health = clusters.Unhealthy
	second.Members = slices.Clone(first.Members)
	second.Members[1] = memberView{Name: "beta", State: "Failed", Synced: "False", Health: clusters.Unhealthy, Message: "away\x1b[2J"}
	second.Unready = []ruleView{{Name: "torn", Health: clusters.Unhealthy, Ready: clusters.Readiness{Reason: "Why", Message: "because"}}}
	third := second
	third.Members, third.Unready = third.Members[:1], nil
	return []groupView{first, second, third}
}

// Piped, only what changed is a line, and no text of another cluster steers a terminal.
func TestFollow(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	show := follow(&out)
	for _, v := range grown() {
		if err := show(v); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for line := range strings.Lines(out.String()) {
		at, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		if _, err := time.Parse(time.RFC3339, at); err != nil {
			t.Errorf("no time: %s", line)
		}
		got = append(got, text)
	}
	want := []string{
		"cluster alpha: Local, synced True",
		"cluster beta: Alive, synced True",
		"group: healthy, 2 clusters, 0 of 0 rules ready",
		"cluster beta: Failed, synced False, away?[2J",
		"group: problems, 2 clusters, 0 of 0 rules ready",
		"rule torn: Why: because",
		"group: problems, 1 clusters, 0 of 0 rules ready",
		"cluster beta: gone",
		"rule torn: no problem any more",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
}

// With -o json each view is one line.
func TestDocuments(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	show := documents(&out, "json")
	for _, v := range grown() {
		if err := show(v); err != nil {
			t.Fatal(err)
		}
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 3 || !json.Valid([]byte(lines[1])) || !strings.Contains(lines[1], `"health":"problems"`) {
		t.Errorf("got %q", lines)
	}
}

// On a terminal the screen is written over, line by line, and never scrolls.
func TestRedraw(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if err := redraw(&out, grown()[1], time.Now(), 30, 5); err != nil {
		t.Fatal(err)
	}
	text, begins := strings.CutPrefix(out.String(), "\x1b[H")
	text, ends := strings.CutSuffix(text, "\x1b[J")
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if !begins || !ends || len(lines) >= 5 || lines[len(lines)-1] != "… 6 more lines\x1b[K" {
		t.Errorf("got %q", out.String())
	}
	for _, line := range lines {
		if line = strings.TrimSuffix(line, "\x1b[K"); len([]rune(line)) > 30 || strings.Contains(line, "\x1b") {
			t.Errorf("line %q", line)
		}
	}
}

// Of a group that the screen is too small for, those that are unhealthy are on it.
func TestRedrawLargeGroup(t *testing.T) {
	t.Parallel()
	v := groupView{Cluster: "c-000", ClusterID: "id-000"}
	for i := range 500 {
		v.Members = append(v.Members, memberView{Name: fmt.Sprintf("c-%03d", i), ClusterID: fmt.Sprintf("id-%03d", i)})
	}
	v.Members[498].Health, v.Members[498].State = clusters.Unhealthy, "Failed"
	var out strings.Builder
	if err := redraw(&out, v, time.Now(), 120, 24); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	if !strings.Contains(text, "c-498") || !strings.Contains(text, "c-000") || !strings.Contains(text, "and 498 more that are healthy") || strings.Count(text, "\n") > 10 {
		t.Errorf("got %s", text)
	}
}
