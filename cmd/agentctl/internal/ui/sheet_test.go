// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/ui/grouptest"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/ui/view"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// hostile are names and messages that would run, close, hide or turn around something.
func hostile() []string {
	return []string{
		`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `'--><svg onload=alert(1)>`, slot, `</td></tr></table>`,
		"\u202egnp.exe\u2066", "zero\u200bwidth", "bell\a escape\x1b[2J nul\x00", "line\nbreak\u2028", "javascript:alert(1)", "{{.Model}}", "\ufeff\u00ad\U000e0041",
	}
}

// group is a cluster of grouptest, with a context.
func group(n, rules int) view.Held {
	return view.Held{Client: &clusters.Client{Context: "east"}, View: grouptest.Of(n, rules)}
}

// whole is the page of what some clusters hold, as a browser gets it.
func whole(t *testing.T, f view.Filter, found []view.Finding, all ...view.Held) (page string, now sheet) {
	t.Helper()
	p, m := newPress(), view.Of(all, found)
	now, err := p.sheetOf(m, f)
	if err != nil {
		t.Fatal(err)
	}
	page, err = p.render("page", pageData{m, now, now.tag(), f, false})
	if err != nil {
		t.Fatal(err)
	}
	return page, now
}

// shape is a page without its text: its tags, with attributes that have no values.
func shape(t *testing.T, page string) string {
	t.Helper()
	tags := regexp.MustCompile(`<[^>]*>`).FindAllString(page, -1)
	for i, tag := range tags {
		for _, link := range regexp.MustCompile(`(?:href|src|action)="([^"]*)"`).FindAllStringSubmatch(tag, -1) {
			if strings.Contains(link[1], ":") || strings.HasPrefix(link[1], "//") {
				t.Errorf("%s leads out of the page", tag)
			}
		}
		tags[i] = regexp.MustCompile(`="[^"]*"`).ReplaceAllString(tag, "")
		if strings.HasPrefix(tag, "<!--") || regexp.MustCompile(` (on\w+|style|srcdoc)\b`).MatchString(tags[i]) {
			t.Errorf("a tag that the page has no use for: %s", tag)
		}
	}
	return strings.Join(tags, "\n")
}

// What other clusters are called and say is text, wherever it stands, and all of it can be seen.
func TestHostileText(t *testing.T) {
	t.Parallel()
	for _, text := range hostile() {
		pages := map[string]string{}
		for _, name := range []string{text, "harmless"} {
			own := group(3, 2)
			for _, c := range own.Clusters {
				c.Name = name
				grouptest.Fail(c, name)
				for i := range c.Status.Conditions {
					c.Status.Conditions[i].Reason = name
				}
				c.Status.Version = name
			}
			for _, r := range own.Rules {
				r.Name, r.Spec.GVK.Kind, r.Spec.GVK.Group = name, name, name
				for i := range r.Status.Sources {
					r.Status.Sources[i].Watching, r.Status.Sources[i].Message, r.Status.Sources[i].Cluster = false, name, name
				}
				r.Status.Conditions[0] = grouptest.Condition("Ready", "False", name, name)
			}
			own.Problem = name
			page, now := whole(t, view.Filter{Text: name}, []view.Finding{
				{Check: "rules", Severity: "error", Cluster: name, Message: name, Fix: name},
				{Check: name, Severity: name, Cluster: name, Message: name, Fix: name},
			}, own)
			page += hostileAnswer(t, name)
			pages[name] = shape(t, page)
			var event []piece
			_, data, _ := strings.Cut(string(eventOf(now.tag(), now.since(nil))), "data: ")
			if err := json.Unmarshal([]byte(data), &event); err != nil || strings.Count(data, "\n") != 2 {
				t.Errorf("%q breaks out of an event: %v", name, err)
			}
			for _, r := range page {
				if r != '\n' && r != '\t' && !unicode.IsPrint(r) {
					t.Errorf("%q: the page has %U", name, r)
				}
			}
		}
		if got, want := pages[text], pages["harmless"]; got != want {
			t.Errorf("%q makes other elements:\n%s\nwant\n%s", text, got, want)
		}
	}
}

// hostileAnswer is the page of an answer that repeats a text everywhere.
func hostileAnswer(t *testing.T, text string) string {
	t.Helper()
	var r whyReport
	quoted, err := json.Marshal(text)
	if err == nil {
		err = json.Unmarshal([]byte(strings.ReplaceAll(`{"rules": [{"name": X, "error": X, "targets": [{"cluster": X, "verdict": X, "reason": X}], "objects": [{"cluster": X, "explanation": {}}]},
			{"name": X, "ready": {"status": X, "reason": X, "message": X}}], "object": {"where": [{"cluster": X, "is": "absent", "text": X}]},
			"copies": [{"cluster": "c", "state": X, "action": X, "reason": X, "rules": [X]}], "unknown": [{"cluster": X, "reason": X}], "notes": [X]}`, "X", string(quoted))), &r)
	}
	if err != nil {
		t.Fatal(err)
	}
	m := view.Of([]view.Held{group(2, 1)}, nil)
	page, err := newPress().render("why", whyData{Model: m, Question: question{text, text, text}, Command: text, Verdicts: r.verdicts(), Report: r})
	if err != nil {
		t.Fatal(err)
	}
	return page
}

// Whatever of the matrix has a reason that a mouse shows can be reached with the tab key, which shows it, too. The sign of another
// cluster cannot: its cell has the reason.
func TestReasonsByKeyboard(t *testing.T) {
	t.Parallel()
	own, there := group(3, 2), group(3, 2)
	grouptest.Fail(own.Clusters[2], "no route")
	there.Client = &clusters.Client{Context: "west"}
	there.Clusters[0].Status.Type, there.Clusters[1].Status.Type = v1alpha1.ClusterTypePeer, v1alpha1.ClusterTypeLocal
	there.Rules = there.Rules[:1]
	page, _ := whole(t, view.Filter{}, nil, own, there)
	_, matrix, _ := strings.Cut(page, `id="matrix"`)
	matrix, _, _ = strings.Cut(matrix, "</table>")
	seen := map[string]int{}
	for _, found := range regexp.MustCompile(`<(th|td|sup)[^>]* title="[^"]*"[^>]*>`).FindAllStringSubmatch(matrix, -1) {
		seen[found[1]]++
		if strings.Contains(found[0], "tabindex") != (found[1] != "sup") {
			t.Errorf("with and without a mouse: %s", found[0])
		}
	}
	if seen["th"] < 3 || seen["td"] < 2 || seen["sup"] != 2 || !strings.Contains(matrix, `title="cluster-001 does not have this rule" tabindex="0"`) {
		t.Errorf("reasons by tag: %v", seen)
	}
}

func TestVisible(t *testing.T) {
	t.Parallel()
	if got, want := visible("a\u202eb\x1bc\n✓ é"), "a⟨U+202E⟩b⟨U+001B⟩c\n✓ é"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
