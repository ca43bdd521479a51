// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/roster-mesh/roster/e2e/harness"
)

// pictures is where TestMatrix writes what it saw.
var pictures = flag.String("write", "", "folder for pictures of the page, page.png and page-dark.png")

const within = 2 * time.Minute

func TestMain(m *testing.M) {
	if _, err := harness.InNetworkNamespace(); err != nil {
		fmt.Fprintln(os.Stderr, "e2e/browser:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// ruleOf selects Secrets, or objects of another kind, by a label that has the rule's name.
const ruleOf = `
apiVersion: clusterregistry.k8s.cisco.com/v1alpha1
kind: ResourceSyncRule
metadata: {name: %[1]s}
spec:
  groupVersionKind: {kind: %[2]s, version: v1}
  rules: [{match: [{namespaces: [NAMESPACE], labels: [{matchLabels: {sync: %[1]s}}]}]}]
---`

// sourceOf is one of those objects.
const sourceOf = `
apiVersion: v1
kind: %[2]s
metadata: {name: %[1]s-%[3]s, namespace: NAMESPACE, labels: {sync: %[1]s}}
---`

// foreign is somebody else's object of the name of a copy.
const foreign = `
apiVersion: v1
kind: Secret
metadata: {name: pull-secrets-tokyo-1, namespace: NAMESPACE}
stringData: {password: another}
`

// mayWrite is the right that one cluster lacks.
const mayWrite = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: roster-feature-flags, labels: {cluster-registry.k8s.cisco.com/controller-aggregated: "true", cluster-registry.k8s.cisco.com/reader-aggregated: "true"}}
rules:
- {apiGroups: [""], resources: [configmaps], verbs: [get, list, watch, create, update, delete]}
`

// sources are the objects of some clusters: how many of each rule.
func sources() map[string]map[string]int {
	return map[string]map[string]int{
		"dublin":   {"pull-secrets": 2, "grafana-tokens": 2},
		"edge-lab": {"tls-certificates": 2, "grafana-tokens": 3},
		"tokyo":    {"pull-secrets": 3, "tls-certificates": 4, "grafana-tokens": 1},
		"virginia": {"tls-certificates": 3},
	}
}

// TestMatrix: in Chromium, the row of a cluster whose API server stops turns red, with the reason for those who use no mouse, and
// green again when it is back. The page throws no error, and breaks none of its own rules about what it may load.
func TestMatrix(t *testing.T) {
	fleet := up(t)
	tokyo := fill(t, fleet)
	tab := open(t, serve(t, fleet))
	tab.eventually("the row of tokyo is green", func() error { return tab.row("tokyo", isGood) })

	if err := tokyo.StopAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	tab.eventually("the row of tokyo is red", func() error { return tab.row("tokyo", isBad) })
	tab.reads("tokyo")
	tab.picture("page.png", "light")
	tab.picture("page-dark.png", "dark")

	if err := tokyo.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	tab.eventually("the row of tokyo is green again", func() error { return tab.row("tokyo", isGood) })
	tab.complained()
}

// fill gives the clusters rules and objects, of which some are in the way or may not be written. It returns tokyo.
func fill(t *testing.T, fleet *harness.Fleet) (tokyo *harness.Cluster) {
	t.Helper()
	first := fleet.Clusters[0]
	apply(t, first, foreign)
	for _, c := range fleet.Clusters {
		var objects strings.Builder
		if c != first {
			objects.WriteString(mayWrite + "---")
		}
		for rule, count := range sources()[c.Name] {
			for i := range count {
				fmt.Fprintf(&objects, sourceOf, rule, "Secret", fmt.Sprint(c.Name, "-", i))
			}
		}
		if c.Name == "tokyo" {
			tokyo = c
		}
		if objects.Len() > 0 {
			apply(t, c, objects.String())
		}
	}
	var rules strings.Builder
	for rule, kind := range map[string]string{"pull-secrets": "Secret", "tls-certificates": "Secret", "grafana-tokens": "Secret", "feature-flags": "ConfigMap"} {
		fmt.Fprintf(&rules, ruleOf, rule, kind)
	}
	apply(t, first, rules.String())
	return tokyo
}

// up starts five clusters, which are a group.
func up(t *testing.T) *harness.Fleet {
	t.Helper()
	bin, err := harness.FindBinaries()
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"frankfurt", "dublin", "edge-lab", "tokyo", "virginia"}
	fleet, err := harness.Up(t.Context(), harness.Options{Binaries: bin, Dir: t.TempDir(), Names: names, Log: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := fleet.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, c := range fleet.Clusters {
		if err := errors.Join(c.Install(t.Context()), c.StartAgent(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := fleet.Clusters[0].Agentctl(t.Context(), "join", "--peer-context", strings.Join(names[1:], ",")); err != nil {
		t.Fatal(err, out)
	}
	return fleet
}

func apply(t *testing.T, c *harness.Cluster, manifest string) {
	t.Helper()
	if out, err := c.Apply(t.Context(), strings.ReplaceAll(manifest, "NAMESPACE", harness.Namespace)); err != nil {
		t.Fatal(err, out)
	}
}

// serve runs agentctl ui until the test ends, and returns its link.
func serve(t *testing.T, fleet *harness.Fleet) string {
	t.Helper()
	bin, err := harness.FindBinaries()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cmd := exec.CommandContext(ctx, bin.Agentctl, "ui", "--kubeconfig", fleet.Kubeconfig, "--context", "frankfurt", "--contexts", "dublin,virginia")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // it was killed
	})
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if text := strings.TrimSpace(lines.Text()); strings.HasPrefix(text, "http://") {
			return text
		}
	}
	t.Fatal("agentctl ui printed no link")
	return ""
}

// tab is one of Chromium's.
type tab struct {
	*testing.T

	ctx        context.Context //nolint:containedctx // chromedp has its tab in it
	mu         sync.Mutex
	complaints []string
}

// open starts Chromium with the page.
func open(t *testing.T, link string) *tab {
	t.Helper()
	path, err := chromium()
	if err != nil {
		t.Fatal(err)
	}
	// Nobody else's pages are opened, and root's Chromium has no sandbox.
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.WindowSize(1400, 1000))
	ctx, end := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(end)
	ctx, end = chromedp.NewContext(ctx)
	t.Cleanup(end)
	b := &tab{T: t, ctx: ctx}
	b.do(chromedp.EmulateViewport(1400, 1000))
	if err := chromedp.Listen(ctx, b.listen); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Call(ctx, cdplog.Enable, cdp.Empty{}); err != nil {
		t.Fatal(err)
	}
	b.do(chromedp.Navigate(link), chromedp.WaitVisible("#matrix"))
	b.eventually("the page is live", func() error {
		if text := run(b, chromedp.Text("#live")); text != "live" {
			return fmt.Errorf("it says %q", text)
		}
		return nil
	})
	return b
}

// chromium finds the browser.
func chromium() (string, error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("chromium is not in PATH: install Debian's package chromium")
}

// do drives the page.
func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	run(b, chromedp.Steps(actions...))
}

// run drives the page and returns what there is to see.
func run[V any](b *tab, action chromedp.Action[V]) V {
	b.Helper()
	value, err := chromedp.Run(b.ctx, action)
	if err != nil {
		b.Fatal(err)
	}
	return value
}

func (b *tab) eventually(what string, cond func() error) {
	b.Helper()
	if _, err := harness.Wait(b.Context(), what, within, func(context.Context) error { return cond() }); err != nil {
		b.picture("failed.png", "light")
		b.Fatal(err)
	}
}

// listen keeps what Chromium says is wrong with the page.
func (b *tab) listen(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		b.complaints = append(b.complaints, e.ExceptionDetails.Text)
	case *cdplog.EventEntryAdded:
		if e.Entry.Level == cdplog.EntryLevelError && !strings.Contains(e.Entry.Text, "401") { // the page that takes the token is one
			b.complaints = append(b.complaints, e.Entry.Text)
		}
	}
}

func (b *tab) complained() {
	b.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, text := range b.complaints {
		b.Errorf("Chromium says: %s", text)
	}
}

// cell is one of the matrix, as it is drawn.
type cell struct {
	Rule, Text, Title   string
	Ink                 [3]int // red, green and blue
	Behind              [3]int
	OfRule, OfAPIServer bool
}

// cells returns those of a cluster's row.
const cells = `(name => {
  const row = [...document.querySelectorAll('#matrix tbody tr')].find(r => r.querySelector('th').textContent.includes(name));
  const colour = text => text.match(/\d+/g).slice(0, 3).map(Number);
  const heads = [...document.querySelectorAll('#matrix thead th')];
  return row && [...row.querySelectorAll('td')].map((td, i) => ({
    Rule: heads[i + 1].textContent, Text: td.textContent, Title: td.title, OfRule: td.classList.contains('c'), OfAPIServer: i === 1,
    Ink: colour(getComputedStyle(td).color), Behind: colour(getComputedStyle(td).backgroundColor),
  }));
})(%q)`

// row says what is wrong with that of a cluster: want holds for the cells of rules that have something from there, and for the API server's.
func (b *tab) row(cluster string, want func(cell) error) error {
	of := 0
	for _, c := range run(b, chromedp.Evaluate[[]cell](fmt.Sprintf(cells, cluster))) {
		if !c.OfAPIServer && (!c.OfRule || sources()[cluster][c.Rule] == 0) {
			continue
		}
		of++
		if err := want(c); err != nil {
			return fmt.Errorf("cell %q: %w", c.Text, err)
		}
	}
	if want := 1 + len(sources()[cluster]); of != want {
		return fmt.Errorf("%d cells, not %d", of, want)
	}
	return nil
}

// isGood is a condition: green behind a count, or grey. A count of which one is in conflict is neither.
func isGood(c cell) error {
	switch red, green, blue := c.Behind[0], c.Behind[1], c.Behind[2]; {
	case c.OfAPIServer && c.Ink[0] <= c.Ink[2]:
	case c.OfRule && green > red && green > blue:
	case c.OfRule && strings.HasPrefix(c.Text, "2/3"):
	default:
		return fmt.Errorf("colours %v on %v", c.Ink, c.Behind)
	}
	return nil
}

// isBad is a condition: red behind a cell of a rule, and as text elsewhere; and the reason is told.
func isBad(c cell) error {
	of := c.Ink
	if c.OfRule {
		of = c.Behind
	}
	if of[0] <= of[1] || of[0] <= of[2] || c.Title == "" {
		return fmt.Errorf("colours %v on %v, title %q", c.Ink, c.Behind, c.Title)
	}
	return nil
}

// reads goes to a cell of a cluster's row with the tab key, and sees its reason below the matrix.
func (b *tab) reads(cluster string) {
	b.Helper()
	at := fmt.Sprintf(`document.activeElement.closest('#matrix td') && document.activeElement.closest('tr').querySelector('th').textContent.includes(%q)
  ? document.activeElement.title : ''`, cluster)
	for range 200 {
		b.do(chromedp.KeyEvent("\t"))
		title := run(b, chromedp.Evaluate[string](at))
		if title == "" {
			continue
		}
		if detail := run(b, chromedp.Text("#detail")); detail != title {
			b.Errorf("below the matrix is %q, not %q", detail, title)
		}
		return
	}
	b.Error("200 times the tab key, and not in the row of " + cluster)
}

// picture writes what the page looks like, with -write.
func (b *tab) picture(name, scheme string) {
	b.Helper()
	if *pictures == "" {
		return
	}
	media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}
	if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, media); err != nil {
		b.Fatal(err)
	}
	b.do(chromedp.Sleep(time.Second)) // colours fade
	png := run(b, chromedp.FullScreenshot(100))
	if err := os.WriteFile(filepath.Join(*pictures, name), png, 0o600); err != nil {
		b.Fatal(err)
	}
}
