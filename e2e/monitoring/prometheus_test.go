// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/roster-mesh/roster/e2e/harness"
)

// scrapeInterval is also how often the alerts are evaluated.
const scrapeInterval = "1s"

// watcher is a Prometheus that watches agents.
type watcher struct {
	url string
}

// watch starts a Prometheus that scrapes the agents and has the chart's alerts.
func watch(t *testing.T, clusters []*harness.Cluster, alerts string) *watcher {
	t.Helper()
	path, err := exec.LookPath("prometheus")
	if err != nil {
		t.Fatal("there is no prometheus in PATH: run .ci/prereqs")
	}
	dir := t.TempDir()
	targets := make([]string, 0, len(clusters))
	for _, c := range clusters {
		targets = append(targets, fmt.Sprintf("127.0.0.1:%d", c.HTTPPort))
	}
	config := map[string]any{
		"global":     map[string]any{"scrape_interval": scrapeInterval, "evaluation_interval": scrapeInterval},
		"rule_files": []string{alerts},
		"scrape_configs": []any{map[string]any{
			"job_name": harness.ServiceAccount, "static_configs": []any{map[string]any{"targets": targets}},
		}},
	}
	data, err := json.Marshal(config) // which is YAML, too
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "prometheus.yaml")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	address, err := harness.FreeAddress(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(path, "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address)
	cmd.Stdout, cmd.Stderr = log, log
	p, err := harness.StartProcess(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Signal(syscall.SIGTERM, within); err != nil {
			t.Error(err)
		}
		if said, err := os.ReadFile(log.Name()); t.Failed() && err == nil {
			t.Logf("prometheus said:\n%s", said[max(0, len(said)-4000):])
		}
	})
	w := &watcher{url: "http://" + address}
	eventually(t, "Prometheus has scraped every agent", func(ctx context.Context) error {
		if p.Ended() {
			return errors.New("prometheus ended")
		}
		n, err := w.query(ctx, "count(roster_ready == 1)")
		if err == nil && (len(n) == 0 || n[0].value() != fmt.Sprint(len(clusters))) {
			err = fmt.Errorf("it has %v", n)
		}
		return err
	})
	return w
}

// get asks Prometheus' API and decodes the data of the answer.
func (w *watcher) get(ctx context.Context, path string, query url.Values, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url+"/api/v1/"+path+"?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	envelope := struct {
		Status, Error string
		Data          any
	}{Data: into}
	if err := json.Unmarshal(body, &envelope); err != nil {
		return fmt.Errorf("%s: %s: %w", path, answer.Status, err)
	}
	if envelope.Status != "success" {
		return fmt.Errorf("%s: %s", path, envelope.Error)
	}
	return nil
}

// series is one of an answer.
type series struct {
	Metric map[string]string
	Value  [2]any // the time, and the value as text
}

func (s series) value() string { return fmt.Sprint(s.Value[1]) }

func (w *watcher) query(ctx context.Context, expression string) ([]series, error) {
	var data struct{ Result []series }
	if err := w.get(ctx, "query", url.Values{"query": {expression}}, &data); err != nil {
		return nil, fmt.Errorf("%s: %w", expression, err)
	}
	return data.Result, nil
}

// alert is one of the chart's, as Prometheus has it.
type alert struct {
	Name, Query, Health, LastError string
	LastEvaluation                 time.Time
	Annotations                    map[string]string
	Alerts                         []struct {
		State  string
		Labels map[string]string
	}
}

func (w *watcher) alerts(ctx context.Context) ([]alert, error) {
	var data struct{ Groups []struct{ Rules []alert } }
	if err := w.get(ctx, "rules", nil, &data); err != nil {
		return nil, err
	}
	var all []alert
	for _, g := range data.Groups {
		all = append(all, g.Rules...)
	}
	if len(all) == 0 {
		return nil, errors.New("prometheus has no alerts")
	}
	for _, a := range all {
		if a.Health != "ok" {
			return nil, fmt.Errorf("alert %s: %s %s", a.Name, a.Health, a.LastError)
		}
	}
	return all, nil
}

// up are the names of the alerts whose expression is true, whether or not it has been for as long as it takes.
func (w *watcher) up(ctx context.Context) ([]string, error) {
	all, err := w.alerts(ctx)
	var names []string
	for _, a := range all {
		if len(a.Alerts) > 0 {
			names = append(names, a.Name)
		}
	}
	return names, err
}

// isUp is the condition that an alert's expression is true.
func (w *watcher) isUp(name string) func(context.Context) error {
	return func(ctx context.Context) error {
		names, err := w.up(ctx)
		if err == nil && !slices.Contains(names, name) {
			err = fmt.Errorf("up are: %s", strings.Join(names, " "))
		}
		return err
	}
}

// noneUp: all is well.
func (w *watcher) noneUp(ctx context.Context) error {
	names, err := w.up(ctx)
	if err == nil && len(names) > 0 {
		err = fmt.Errorf("up are: %s", strings.Join(names, " "))
	}
	return err
}
