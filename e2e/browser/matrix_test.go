// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/roster-mesh/roster/e2e/harness"
)

func TestMain(m *testing.M) {
	if _, err := harness.InNetworkNamespace(); err != nil {
		fmt.Fprintln(os.Stderr, "e2e/browser:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// TestMatrix: in Chromium, the copies from a cluster whose API server stops turn red, a minute later all that is said of the
// cluster does, with the reason for those who use no mouse, and green again when it is back. All text can be read, in light and in dark.
// A conflict and a missing right wait for a person, each with its command. The page throws no error, and breaks none of its own rules
// about what it may load.
func TestMatrix(t *testing.T) {
	fleet := up(t)
	tokyo := fill(t, fleet)
	tab := open(t, serve(t, fleet, "--contexts", "dublin,virginia"))
	tab.eventually("the row of tokyo is green", func() error { return tab.row("tokyo", isGood) })

	tab.eventually("what waits for a person is told, with the commands", func() error {
		return tab.waiting(map[string]string{
			"missing right": "kubectl --context frankfurt apply -f - <<< '{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: roster-write-configmaps,",
			"rule":          "agentctl rules explain pull-secrets --context frankfurt", // a conflict
		})
	})

	if err := tokyo.StopAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	tab.eventually("the copies from tokyo are red", func() error { return tab.row("tokyo", isFrozen) })
	tab.eventually("tokyo is red", func() error { return tab.row("tokyo", isBad) })
	tab.reads("Cluster", "th.rule", "about ")
	tab.eventually("dublin says that tokyo is away", func() error { return tab.says("dublin", "SourceUnreachable") })
	tab.reads("dublin", "td.c", "dublin says: SourceUnreachable")
	tab.reads("tokyo", "th", "")
	tab.reads("tokyo", "td", "")
	light := tab.look("tokyo").Colours["bad"]
	for _, scheme := range []string{"light", "dark"} {
		tab.prefers(scheme)
		tab.eventually("tokyo is red, "+scheme, func() error { return tab.row("tokyo", isBad) })
		tab.eventually("text can be read, "+scheme, tab.contrast)
		if red := tab.look("tokyo").Colours["bad"]; (red == light) != (scheme == "light") {
			t.Errorf("the red of %s is %s, and that of light is %s", scheme, red, light)
		}
	}
	tab.picture("page.png", "light")
	tab.picture("page-dark.png", "dark")

	if err := tokyo.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	tab.eventually("the row of tokyo is green again", func() error { return tab.row("tokyo", isGood) })
	tab.eventually("text can be read", tab.contrast)
	tab.complained()
}

// waiting is a condition: each topic waits for a person, with a command that has a text.
func (b *tab) waiting(want map[string]string) error {
	tasks := run(b, chromedp.Evaluate[[]struct{ Topic, Text, Command string }](`[...document.querySelectorAll('#waiting li')].map(li => ({
    Topic: li.querySelector('.topic').textContent, Text: li.querySelector('p').textContent, Command: li.querySelector('code')?.textContent ?? '',
  }))`))
	for topic, command := range want {
		found := false
		for _, one := range tasks {
			found = found || one.Topic == topic && strings.Contains(one.Command, command)
		}
		if !found {
			return fmt.Errorf("no %s with %q waits: %+v", topic, command, tasks)
		}
	}
	return nil
}

// look is what the page shows of a cluster, in the colours that the browser has computed.
type look struct {
	Colours         map[string]string // those that the page's own style has for good, unknown and bad
	Name, Sign, Dot string            // its name, the sign beside it, and it in the drawing of the mesh
	Cells           []cell            // its row in the matrix
}

// cell is one of the matrix.
type cell struct {
	Head, Text, Title string
	Ink, Behind       string
}

const lookAt = `(name => {
  const probe = document.body.appendChild(document.createElement('i'));
  const colour = text => { probe.style.color = text; return getComputedStyle(probe).color; };
  const colours = ['good', 'good-soft', 'unknown', 'unknown-soft', 'bad', 'bad-soft', 'muted'].map(c => [c, colour('var(--' + c + ')')]);
  probe.remove();
  const has = (e, part) => e.querySelector(part)?.textContent.includes(name);
  const row = [...document.querySelectorAll('#matrix tbody tr')].find(r => has(r, 'th'));
  const dot = [...document.querySelectorAll('#mesh g')].find(g => has(g, 'text'));
  const heads = [...document.querySelectorAll('#matrix thead th')];
  return {
    Colours: Object.fromEntries(colours),
    Name: row ? getComputedStyle(row.querySelector('th')).color : '',
    Sign: row ? getComputedStyle(row.querySelector('.sign')).color : '',
    Dot: dot ? getComputedStyle(dot.querySelector('circle')).fill : '',
    Cells: row ? [...row.querySelectorAll('td')].map((td, i) => ({
      Head: heads[i + 1].textContent, Text: td.textContent, Title: td.title,
      Ink: getComputedStyle(td).color, Behind: getComputedStyle(td).backgroundColor,
    })) : [],
  };
})(%q)`

func (b *tab) look(cluster string) look {
	return run(b, chromedp.Evaluate[look](fmt.Sprintf(lookAt, cluster)))
}

// row says what is wrong with how a cluster looks: want holds for it, and for its cells of rules that have something from there.
func (b *tab) row(cluster string, want func(l look, rules []cell) error) error {
	l := b.look(cluster)
	var rules []cell
	for _, c := range l.Cells {
		if sources()[cluster][c.Head] > 0 {
			rules = append(rules, c)
		}
	}
	if n := len(sources()[cluster]); len(rules) != n {
		return fmt.Errorf("%d cells of rules, not %d", len(rules), n)
	}
	return want(l, rules)
}

// told are the cells of what the agent says of the cluster's API server and of its list of rules.
func (l look) told() (out []cell) {
	for _, c := range l.Cells {
		if c.Head == "API server" || c.Head == "List" {
			out = append(out, c)
		}
	}
	return out
}

// isGood is a condition: all is green or grey, but a count of which one is in conflict.
func isGood(l look, rules []cell) error {
	for _, c := range rules {
		ink := "good"
		if strings.HasPrefix(c.Text, "2/3") {
			ink = "unknown"
		}
		if c.Ink != l.Colours[ink] || c.Behind != l.Colours[ink+"-soft"] {
			return fmt.Errorf("%+v is not %s: %v", c, ink, l.Colours)
		}
	}
	for _, c := range l.told() {
		if c.Ink != l.Colours["muted"] {
			return fmt.Errorf("%+v is not grey: %v", c, l.Colours)
		}
	}
	if l.Sign != l.Colours["good"] || l.Dot != l.Colours["good"] {
		return fmt.Errorf("sign %s, dot %s; good is %s", l.Sign, l.Dot, l.Colours["good"])
	}
	return nil
}

// isFrozen is a condition: the cells of rules are red, for nothing comes from there, and of the cluster at least nothing good is
// said. Each has its reason.
func isFrozen(l look, rules []cell) error {
	for _, c := range rules {
		if c.Ink != l.Colours["bad"] || c.Behind != l.Colours["bad-soft"] || c.Title == "" {
			return fmt.Errorf("%+v is not red with a reason: %v", c, l.Colours)
		}
	}
	return l.said("unknown", "bad")
}

// isBad is a condition: all is red.
func isBad(l look, rules []cell) error {
	if err := isFrozen(l, rules); err != nil {
		return err
	}
	return l.said("bad")
}

// said holds when what is said of a cluster has one of some colours, and its reason.
func (l look) said(colours ...string) error {
	var of []string
	for _, c := range colours {
		of = append(of, l.Colours[c])
	}
	told := l.told()
	for _, c := range told {
		if !slices.Contains(of, c.Ink) || c.Title == "" {
			return fmt.Errorf("%+v is not %v with a reason: %v", c, colours, l.Colours)
		}
	}
	if len(told) != 2 || !slices.Contains(of, l.Name) || !slices.Contains(of, l.Sign) || !slices.Contains(of, l.Dot) {
		return fmt.Errorf("%d cells, name %s, sign %s, dot %s; not %v: %v", len(told), l.Name, l.Sign, l.Dot, colours, l.Colours)
	}
	return nil
}

// contrasts measures all text against what is behind it, as WCAG 2 defines it.
const contrasts = `(() => {
  const parts = text => { const p = text.match(/[\d.]+/g).map(Number); return p.length > 3 ? p : [...p, 1]; };
  const over = (a, b) => [0, 1, 2].map(i => a[i] * a[3] + b[i] * (1 - a[3]));
  const behind = e => {
    if (!e) return [255, 255, 255];
    const own = parts(getComputedStyle(e).backgroundColor);
    return own[3] === 1 ? own : over(own, behind(e.parentElement));
  };
  const light = c => [0.2126, 0.7152, 0.0722].reduce((sum, share, i) => {
    const v = c[i] / 255;
    return sum + share * (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  }, 0);
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const all = [];
  while (texts.nextNode()) {
    const text = texts.currentNode.textContent.trim(), e = texts.currentNode.parentElement;
    if (!text || e.closest('title, datalist') || !e.checkVisibility()) continue;
    const style = getComputedStyle(e), back = behind(e);
    const ink = over(parts(e instanceof SVGElement ? style.fill : style.color), back);
    const [dark, bright] = [light(ink), light(back)].sort((a, b) => a - b);
    all.push({Text: text, Ratio: (bright + 0.05) / (dark + 0.05)});
  }
  return all;
})()`

// contrast is a condition: what is written on the page can be read by those who see little contrast (WCAG 2, level AA).
func (b *tab) contrast() error {
	const least = 4.5
	all := run(b, chromedp.Evaluate[[]struct {
		Text  string
		Ratio float64
	}](contrasts))
	if len(all) < 50 {
		return fmt.Errorf("%d texts are all that the page has", len(all))
	}
	for _, one := range all {
		if one.Ratio < least {
			return fmt.Errorf("the contrast of %q is %.2f", one.Text, one.Ratio)
		}
	}
	return nil
}

// says is a condition: a cell of a rule has a text in its reason.
func (b *tab) says(cluster, text string) error {
	for _, c := range b.look(cluster).Cells {
		if strings.Contains(c.Title, text) {
			return nil
		}
	}
	return fmt.Errorf("no cell of %s says %q", cluster, text)
}

// reads goes to a part of a row of the matrix with the tab key, and sees its reason, which has a text, below the matrix.
func (b *tab) reads(row, part, text string) {
	b.Helper()
	at := fmt.Sprintf(`document.activeElement.closest('#matrix') && document.activeElement.matches(%q)
  && document.activeElement.closest('tr').querySelector('th').textContent.includes(%q) ? document.activeElement.title : ''`, part, row)
	for range 200 {
		b.do(chromedp.KeyEvent("\t"))
		title := run(b, chromedp.Evaluate[string](at))
		if title == "" || !strings.Contains(title, text) {
			continue
		}
		if detail := run(b, chromedp.Text("#detail")); detail != title {
			b.Errorf("below the matrix is %q, not %q", detail, title)
		}
		return
	}
	b.Errorf("200 times the tab key, and at no %s with %q in the row of %s", part, text, row)
}
