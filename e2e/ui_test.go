// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/roster-mesh/roster/e2e/harness"
)

// page is agentctl ui, and a browser that it has let in.
type page struct {
	*http.Client

	at     *url.URL
	events locked // all that the stream of events has sent
}

// openPage runs agentctl ui until the test ends.
func (g *group) openPage(t *testing.T, args ...string) *page {
	t.Helper()
	bin, err := harness.FindBinaries()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cmd := exec.CommandContext(ctx, bin.Agentctl, append([]string{"ui", "--kubeconfig", g.Kubeconfig}, args...)...)
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
	p := &page{Client: &http.Client{}}
	lines := bufio.NewScanner(out)
	for p.at == nil && lines.Scan() {
		if text := strings.TrimSpace(lines.Text()); strings.HasPrefix(text, "http://") {
			if p.at, err = url.Parse(text); err != nil {
				t.Fatal(err)
			}
		}
	}
	if p.at == nil {
		t.Fatal("agentctl ui printed no link")
	}
	p.login(t)
	go p.follow(ctx)
	return p
}

// login shows that nobody gets the page without the token, or twice with it.
func (p *page) login(t *testing.T) {
	t.Helper()
	token := url.Values{"token": {p.at.Fragment}}
	p.at.Fragment = ""
	if text, code, err := p.get(t.Context(), ""); err != nil || code != http.StatusUnauthorized || strings.Contains(text, "alpha") {
		t.Fatalf("without the token: %d, %v\n%s", code, err, text)
	}
	var err error
	if p.Jar, err = cookiejar.New(nil); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{http.StatusOK, http.StatusUnauthorized} {
		response, err := p.PostForm(p.at.JoinPath("login").String(), token)
		if err != nil || response.StatusCode != want {
			t.Fatalf("login: %v, %v", response, err)
		}
		_ = response.Body.Close()
	}
}

// get reads a page.
func (p *page) get(ctx context.Context, name string) (text string, code int, err error) {
	at, err := p.at.Parse(name)
	if err != nil {
		return "", 0, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return "", 0, err
	}
	response, err := p.Do(request)
	if err != nil {
		return "", 0, err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	return string(data), response.StatusCode, err
}

// follow keeps what the stream of events sends.
func (p *page) follow(ctx context.Context) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.at.JoinPath("events").String(), nil)
	if err != nil {
		return
	}
	if response, err := p.Do(request); err == nil {
		defer response.Body.Close()
		_, _ = io.Copy(&p.events, response.Body) // until the test ends
	}
}

// shows is a condition: the page has all of the texts, and the stream of events has sent those that are new since mark.
func (p *page) shows(mark int, news []string, texts ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		whole, code, err := p.get(ctx, "")
		if err != nil || code != http.StatusOK {
			return fmt.Errorf("the page: %d, %w", code, err)
		}
		var errs []error
		for _, text := range append(texts, news...) {
			if !strings.Contains(whole, text) {
				errs = append(errs, fmt.Errorf("the page does not have %q:\n%s", text, whole))
			}
		}
		sent := strings.ReplaceAll(p.events.String()[mark:], `\"`, `"`)
		for _, text := range news {
			if !strings.Contains(sent, text) {
				errs = append(errs, fmt.Errorf("no event has %q", text))
			}
		}
		return errors.Join(errs...)
	}
}

// fine is what a page has of a healthy group.
func (p *page) fine(mark int, news ...string) func(context.Context) error {
	return p.shows(mark, append(news, `data-title="✓ alpha`, `class="summary good"`), "Nothing waits for you.", "Every member is reached.")
}

// answers is a condition: the page has these texts about why a Secret is, or is not, in a cluster.
func (p *page) answers(secret, cluster string, texts ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		text, code, err := p.get(ctx, "why?kind=secret&object="+harness.Namespace+"/"+secret+"&cluster="+cluster)
		if err != nil || code != http.StatusOK {
			return fmt.Errorf("the page: %d, %w", code, err)
		}
		for _, want := range texts {
			if !strings.Contains(text, want) {
				return fmt.Errorf("the page does not have %q:\n%s", want, text)
			}
		}
		return nil
	}
}

// A form answers why a Secret is in another cluster, or why not.
func TestPageExplains(t *testing.T) {
	g := joined(t)
	name := fmt.Sprintf("page-%d", time.Now().UnixNano())
	other := name + "-other"
	g.cleanUp(t, name)
	g.cleanUp(t, other)
	putSecret(t, g.alpha, name, "v1")
	putSecret(t, g.alpha, other, "v1")
	apply(t, g.alpha, rule(name, name))
	p := g.openPage(t, "--context", "alpha", "--contexts", "beta")
	eventually(t, "it is in beta", within, p.answers(name, "beta", "in sync, by rule "+name, "agentctl rules explain secret "+name+" --namespace "+harness.Namespace+" --context alpha"))
	eventually(t, "the other one is not", within, p.answers(other, "beta", "not there, and nothing is copied there", "rule "+name+" does not select it in alpha: ", "objectKey"))
	eventually(t, "the rule is in the matrix", within, p.shows(0, []string{"<span>" + name + "</span>"}))
}

// The page shows a whole group, then that an agent is away, then that an API server is, each with the reason and the command,
// and the whole group again. The browser that has it open sees the same.
func TestPage(t *testing.T) {
	g := joined(t)
	name := fmt.Sprintf("page-%d", time.Now().UnixNano())
	g.cleanUp(t, name)
	g.share(t, name, "v1")
	eventually(t, "status is healthy", afterFault, g.asks(0, []string{"status", "--context", "alpha"}))
	p := g.openPage(t, "--context", "alpha", "--contexts", "beta,gamma")
	eventually(t, "all clusters are synced", within, p.fine(0, "</span> alpha", "</span> beta", "</span> gamma"))

	mark := len(p.events.String())
	if err := g.gamma.KillAgent(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the agent of gamma is away", afterFault, p.shows(mark, []string{
		`data-title="✗ alpha`, "✗ gamma</text>", "the agents in alpha, beta (2 of 2) say of gamma: ",
		"kubectl --context gamma -n cluster-registry rollout restart deployment,statefulset -l app.kubernetes.io/part-of=roster,app.kubernetes.io/component=agent",
	}))
	mark = len(p.events.String())
	if err := g.gamma.StartAgent(lasting(t)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all is fine again", afterFault, p.fine(mark, ">gamma</text>"))

	mark = len(p.events.String())
	if err := g.gamma.StopAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the API server of gamma is away", afterFault, p.shows(mark, []string{
		`data-title="✗ alpha`, "The API server of context gamma cannot be watched", "agentctl doctor --context gamma",
		"frozen<sup", "the agents in alpha, beta (2 of 2) say of gamma: ", "kubectl --context gamma get --raw &#39;/readyz?verbose&#39;",
	}))
	mark = len(p.events.String())
	if err := g.gamma.StartAPIServer(lasting(t)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all is fine again", afterFault, p.fine(mark))
}
