// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/apitest"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/ui/grouptest"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/ui/view"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// open runs the command about some API servers and lets a client in, as a browser does.
func open(t *testing.T, uses Uses, servers ...*apitest.Server) (client *http.Client, page *url.URL) {
	t.Helper()
	config := "apiVersion: v1\nkind: Config\ncurrent-context: a\nusers: [{name: u, user: {}}]\nclusters:\n"
	contexts, o := "contexts:\n", &Options{Namespace: "ns", Listen: "127.0.0.1:0"}
	for i, s := range servers {
		name := string(rune('a' + i))
		config += "- {name: " + name + ", cluster: {server: \"" + s.URL + "\"}}\n"
		contexts += "- {name: " + name + ", context: {cluster: " + name + ", user: u}}\n"
		if i > 0 {
			o.Contexts = append(o.Contexts, name)
		}
	}
	o.Access = clusters.Access{Kubeconfig: filepath.Join(t.TempDir(), "config")}
	if err := os.WriteFile(o.Kubeconfig, []byte(config+contexts), 0o600); err != nil {
		t.Fatal(err)
	}
	o.Uses = uses
	out, printed := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- o.Run(t.Context(), &cli.Output{Stdout: printed, Format: "table"}) }()
	t.Cleanup(func() {
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	var link string
	lines := bufio.NewScanner(out)
	for link == "" && lines.Scan() {
		if text := strings.TrimSpace(lines.Text()); strings.HasPrefix(text, "http://") {
			link = text
		}
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	page, err := url.Parse(link)
	if err != nil {
		t.Fatal(err)
	}
	jar, _ := cookiejar.New(nil)
	client = &http.Client{Jar: jar}
	t.Cleanup(client.CloseIdleConnections)
	form := url.Values{"token": {page.Fragment}}
	page.Fragment = ""
	response, err := client.PostForm(page.JoinPath("login").String(), form)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("login: %v, %v", response, err)
	}
	_ = response.Body.Close()
	return client, page
}

func noUses() Uses {
	return Uses{Findings: func(context.Context, string, []view.Held) []view.Finding { return nil }}
}

// read returns a page.
func read(t *testing.T, client *http.Client, address string) string {
	t.Helper()
	response, err := client.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", address, response.Status, err)
	}
	return string(data)
}

// follow returns the next event of a stream each time it is called.
func follow(t *testing.T, client *http.Client, address string) func() (id string, pieces []piece) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil || response.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("events: %v, %v", response, err)
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 16<<20)
	return func() (id string, pieces []piece) {
		t.Helper()
		for lines.Scan() {
			if text, found := strings.CutPrefix(lines.Text(), "id: "); found {
				id = text
			}
			if text, found := strings.CutPrefix(lines.Text(), "data: "); found {
				if err := json.Unmarshal([]byte(text), &pieces); err != nil {
					t.Fatal(err)
				}
				return id, pieces
			}
		}
		t.Fatal("the stream ended")
		return "", nil
	}
}

func clusterObject(name string) string {
	return "{apiVersion: clusterregistry.k8s.cisco.com/v1alpha1, kind: Cluster, metadata: {name: " + name + "}, spec: {clusterID: id-" + name + "}}"
}

// A browser gets the page, and then what changes of it; one that has seen the present page gets nothing.
func TestEvents(t *testing.T) {
	t.Parallel()
	s := apitest.New()
	t.Cleanup(s.Close)
	s.Put(apitest.Parse(t, clusterObject("alpha")))
	client, at := open(t, noUses(), s)
	next := follow(t, client, at.JoinPath("events").String())
	await := func(text string) (id string, pieces []piece) {
		t.Helper()
		for start := time.Now(); time.Since(start) < time.Minute; {
			id, pieces = next()
			if mentions(pieces, text) {
				return id, pieces
			}
		}
		t.Fatalf("no event has %s", text)
		return id, pieces
	}
	await("alpha")
	s.Put(apitest.Parse(t, clusterObject("beta")))
	id, pieces := await("beta")
	if len(pieces) == 0 || pieces[0].ID == "" {
		t.Fatalf("pieces %v", pieces)
	}
	page := read(t, client, at.String())
	if !strings.Contains(page, `data-seen="`+id+`"`) || !strings.Contains(page, "beta") {
		t.Errorf("the page is not what the event made of it: %s is not in\n%s", id, page)
	}
	again := follow(t, client, at.JoinPath("events").String()+"?seen="+id)
	s.Put(apitest.Parse(t, clusterObject("gamma")))
	if _, pieces := again(); !mentions(pieces, "gamma") {
		t.Errorf("the first event of a browser that had the page is not about what changed: %v", pieces)
	}
}

func mentions(pieces []piece, text string) bool {
	for _, p := range pieces {
		if strings.Contains(p.HTML, text) {
			return true
		}
	}
	return false
}

// At most one event a second is sent, whatever happens in between.
func TestEventsAreBounded(t *testing.T) {
	t.Parallel()
	s := apitest.New()
	t.Cleanup(s.Close)
	s.Put(apitest.Parse(t, clusterObject("alpha")))
	client, at := open(t, noUses(), s)
	next := follow(t, client, at.JoinPath("events").String())
	next()
	start, events, last := time.Now(), 0, ""
	for i := range 200 {
		last = "c" + string(rune('a'+i%26)) + string(rune('a'+i/26))
		s.Put(apitest.Parse(t, clusterObject(last)))
	}
	for done := false; !done; events++ {
		_, pieces := next()
		done = mentions(pieces, ">"+last+"</text>") || mentions(pieces, "</span> "+last)
	}
	if most := int(time.Since(start)/mostOften) + 2; events > most {
		t.Errorf("%d events in %s", events, time.Since(start))
	}
}

// sizes are how many bytes the whole page has, and an event after one cluster of it has failed.
func sizes(t *testing.T, n, rules int, f view.Filter) (page, event int) {
	t.Helper()
	own := group(n, rules)
	whole, before := whole(t, f, nil, own)
	after := *own.Clusters[n/2]
	grouptest.Fail(&after, "no route")
	own.Clusters = append([]*v1alpha1.Cluster{}, own.Clusters...)
	own.Clusters[n/2] = &after
	now, err := newPress().sheetOf(view.Of([]view.Held{own}, nil), f)
	if err != nil {
		t.Fatal(err)
	}
	return len(whole), len(eventOf(now.tag(), now.since(before)))
}

// A change costs what changed, not what there is: of 500 clusters and 100 rules, shown whole, an event about one cluster is a
// hundredth of the page; and what is shown by default is a fifth of all.
func TestSizeOfEvents(t *testing.T) {
	t.Parallel()
	all, event := sizes(t, 500, 100, view.Filter{All: true})
	if event > all/100 {
		t.Errorf("an event has %d bytes, the page %d", event, all)
	}
	_, small := sizes(t, 50, 100, view.Filter{All: true})
	if event > small*2 {
		t.Errorf("an event has %d bytes among 500 clusters, and %d among 50", event, small)
	}
	some, _ := sizes(t, 500, 100, view.Filter{})
	if some > all/5 {
		t.Errorf("the page has %d bytes, and %d with all that is there", some, all)
	}
	t.Logf("500 clusters, 100 rules: the page has %d bytes, with all of them %d, an event about one cluster %d", some, all, event)
}

// A rule that has a problem turns red in the head of the matrix, and the rest of it stays as it is.
func TestEventOfRule(t *testing.T) {
	t.Parallel()
	own := group(20, 3)
	_, before := whole(t, view.Filter{}, nil, own)
	own.Rules[1].Status.Conditions[0] = grouptest.Condition(clusters.RuleReady, metav1.ConditionFalse, "Refused", "by a policy")
	_, now := whole(t, view.Filter{}, nil, own)
	var ids []string
	for _, p := range now.since(before) {
		ids = append(ids, p.ID)
	}
	own0 := view.Of([]view.Held{own}, nil).Matrix.Rows[0].ID
	if want := []string{"heads", own0, "summary"}; !slices.Equal(ids, want) {
		t.Errorf("an event about one rule has %q, want %q", ids, want)
	}
}

// The work for a page grows as what is in it: ten times the clusters are not a hundred times the work.
func TestWorkGrowsWithSize(t *testing.T) { //nolint:paralleltest // allocations are counted
	work := func(n int) float64 {
		own, p := group(n, 20), newPress()
		return testing.AllocsPerRun(2, func() {
			if _, err := p.sheetOf(view.Of([]view.Held{own}, nil), view.Filter{All: true}); err != nil {
				t.Fatal(err)
			}
		})
	}
	if few, many := work(50), work(500); many > few*15 {
		t.Errorf("%.0f allocations for 50 clusters, %.0f for 500", few, many)
	}
}

// BenchmarkPage is the page after one cluster has changed, and over the time that it takes to write what it shows as JSON (×json).
func BenchmarkPage(b *testing.B) {
	for _, n := range []int{5, 500} {
		for name, f := range map[string]view.Filter{"default": {}, "all": {All: true}} {
			b.Run(fmt.Sprintf("%s/clusters=%d", name, n), func(b *testing.B) {
				own, p := group(n, 100), newPress()
				var page, plain time.Duration
				for i := 0; b.Loop(); i++ {
					own.Clusters[n/2].Spec.ClusterID = types.UID(string(rune('a' + i%26)))
					start := time.Now()
					if _, err := p.sheetOf(view.Of([]view.Held{own}, nil), f); err != nil {
						b.Fatal(err)
					}
					between := time.Now()
					for _, objects := range []any{own.Clusters, own.Rules} {
						if _, err := json.Marshal(objects); err != nil {
							b.Fatal(err)
						}
					}
					page, plain = page+between.Sub(start), plain+time.Since(between)
				}
				b.ReportMetric(float64(page.Microseconds())/1000/float64(b.N), "ms/page")
				b.ReportMetric(page.Seconds()/plain.Seconds(), "×json")
			})
		}
	}
}
