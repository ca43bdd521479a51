// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"context"
	"encoding/json"
	"runtime"
	"strings"
	"testing"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/apitest"
)

const explained = `{
"rules": [
  {"name": "picky", "objects": [{"cluster": "alpha (this cluster)", "explanation": {"matched": false, "clauses": [{"path": "spec.rules[0]", "matched": false,
    "match": [{"path": "spec.rules[0].match[0]", "matched": false, "fields": [{"path": "spec.rules[0].match[0].namespaces", "matched": false, "text": "wants prod: object has shop"}]}]}]}}]},
  {"name": "narrow", "objects": [{"cluster": "alpha (this cluster)", "explanation": {"matched": true, "clauses": []}}],
    "targets": [{"cluster": "beta", "verdict": "yes"}, {"cluster": "gamma", "verdict": "no", "reason": "spec.targets asks for region: eu"}]},
  {"name": "broken", "error": "no kind"}],
"object": {"where": [{"cluster": "alpha (this cluster)", "is": "source", "text": "an object of its own"}, {"cluster": "beta", "is": "copy", "text": "a copy"},
  {"cluster": "gamma", "is": "absent", "text": "not there"}, {"cluster": "delta", "is": "unknown", "text": "not known: no route"}]},
"copies": [{"cluster": "beta", "state": "blocked", "reason": "a quota", "rules": ["narrow"]}],
"unknown": [{"cluster": "delta", "reason": "no route"}], "notes": []}`

func TestVerdicts(t *testing.T) {
	t.Parallel()
	var r whyReport
	if err := json.Unmarshal([]byte(explained), &r); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, v := range r.verdicts() {
		got = append(got, string(v.Mark)+" "+v.Cluster+" "+v.Text)
		for _, text := range v.Reasons {
			got = append(got, "- "+text)
		}
	}
	want := `good alpha an object of its own
bad beta a copy
- blocked, by rule narrow: a quota
none gamma not there, and nothing is copied there
- rule picky does not select it in alpha: spec.rules[0].match[0].namespaces: wants prod: object has shop
- rule narrow does not copy it there (no): spec.targets asks for region: eu
- rule broken cannot be used: no kind
unknown delta not known: no route`
	if text := strings.Join(got, "\n"); text != want {
		t.Errorf("it is\n%s\nwant\n%s", text, want)
	}
}

// The form leads to the answer for one cluster, and to the command that gives the same; nothing that is asked is markup.
func TestWhy(t *testing.T) {
	t.Parallel()
	s := apitest.New()
	t.Cleanup(s.Close)
	s.Put(apitest.Parse(t, clusterObject("alpha")))
	asked := make(chan Question, 9)
	uses := noUses()
	uses.Explain = func(_ context.Context, q Question) ([]byte, error) {
		asked <- q
		return []byte(explained), nil
	}
	client, at := open(t, uses, s)
	page := read(t, client, at.JoinPath("why").String()+"?kind=secret&object=shop/it's&cluster=gamma")
	if q := <-asked; q.Kind != "secret" || q.Namespace != "shop" || q.Name != "it's" || q.Context != "a" || q.AgentNamespace != "ns" {
		t.Errorf("asked %+v", q)
	}
	for _, text := range []string{"spec.targets asks for region: eu", "agentctl rules explain secret &#39;it&#39;\\&#39;&#39;s&#39; --namespace shop --context a"} {
		if !strings.Contains(page, text) {
			t.Errorf("no %q in\n%s", text, page)
		}
	}
	if strings.Contains(page, "a quota") {
		t.Errorf("the answer for gamma has that for beta:\n%s", page)
	}
	for _, query := range []string{"", "?kind=secret", "?kind=&object=a/b", "?kind=secret&object=a/b/c", "?kind=a+b&object=x"} {
		if page := read(t, client, at.JoinPath("why").String()+query); !strings.Contains(page, "give a kind, such as secret") {
			t.Errorf("%q is not refused", query)
		}
	}
	for !strings.Contains(read(t, client, at.JoinPath("why").String()), "<option>alpha</option>") {
		runtime.Gosched() // until alpha has been read: both pages have the same choices then
	}
	if got, want := shape(t, read(t, client, at.JoinPath("why").String()+"?kind=%3Cscript%3E&object=%22%3E%3Cb%3E&cluster=%3Cb%3E")),
		shape(t, read(t, client, at.JoinPath("why").String()+"?kind=k&object=o&cluster=c")); got != want {
		t.Errorf("a question makes other elements:\n%s\nwant\n%s", got, want)
	}
}
