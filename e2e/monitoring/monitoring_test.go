// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/e2e/harness"
)

// within is how long anything may take; a member that is gone counts as failed after a minute.
const within = 3 * time.Minute

func TestMain(m *testing.M) {
	if _, err := harness.InNetworkNamespace(); err != nil {
		fmt.Fprintln(os.Stderr, "e2e/monitoring:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func eventually(t *testing.T, what string, cond func(context.Context) error) {
	t.Helper()
	took, err := harness.Wait(t.Context(), what, within, cond)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%7.3f s  %s", took.Seconds(), what)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// secrets is a rule about one Secret, and unreadable one about what no reader may read.
const (
	secrets = `{"apiVersion":"clusterregistry.k8s.cisco.com/v1alpha1","kind":"ResourceSyncRule","metadata":{"name":"secrets"},
		"spec":{"groupVersionKind":{"version":"v1","kind":"Secret"},"rules":[{"match":[{"objectKey":{"name":"watched","namespace":"cluster-registry"}}]}]}}`
	unreadable = `{"apiVersion":"clusterregistry.k8s.cisco.com/v1alpha1","kind":"ResourceSyncRule","metadata":{"name":"unreadable"},
		"spec":{"groupVersionKind":{"version":"v1","kind":"ConfigMap"},"rules":[{"match":[{"objectKey":{"name":"any","namespace":"default"}}]}]}}`
	secret = `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"watched","namespace":"cluster-registry"},"stringData":{"n":"%d"}}`
)

func TestDashboardAndAlerts(t *testing.T) {
	bin, err := harness.FindBinaries()
	must(t, err)
	fleet, err := harness.Up(t.Context(), harness.Options{Binaries: bin, Dir: t.TempDir(), Names: []string{"alpha", "beta"}, Log: t.Logf})
	must(t, err)
	t.Cleanup(func() {
		if err := fleet.Close(); err != nil {
			t.Error(err)
		}
	})
	alpha, beta := fleet.Clusters[0], fleet.Clusters[1]
	for _, c := range fleet.Clusters {
		must(t, c.Install(t.Context()))
		must(t, c.StartAgent(t.Context()))
	}
	_, err = fleet.Agentctl(t.Context(), "join", "--context", "alpha", "--peer-context", "beta")
	must(t, err)
	for _, c := range fleet.Clusters {
		eventually(t, "synced as "+c.Name+" sees it", func(ctx context.Context) error { return whole(ctx, fleet, c) })
	}
	w := watch(t, fleet.Clusters, filepath.Join(bin.Chart, "files", "alerts.yaml"))

	_, err = alpha.Apply(t.Context(), secrets)
	must(t, err)
	changes := change(t, alpha, beta)
	garbage(t, alpha)
	for _, q := range queries(t, filepath.Join(bin.Chart, "files", "dashboard.json")) {
		eventually(t, "panel "+q.panel+" shows something", func(ctx context.Context) error {
			changes(ctx)
			got, err := w.query(ctx, q.expression)
			if err == nil && len(got) == 0 {
				err = errors.New("no series: " + q.expression)
			}
			return err
		})
	}
	alertsAreWhole(t, w, filepath.Join(bin.Root, "docs", "troubleshooting.md"))
	eventually(t, "no alert while all is well", w.noneUp)

	_, err = alpha.Apply(t.Context(), unreadable)
	must(t, err)
	eventually(t, "RosterRuleNotReady", w.isUp("RosterRuleNotReady"))
	pause := func(paused string) {
		_, err := alpha.Kubectl(t.Context(), "patch", "resourcesyncrule", "unreadable", "--type=merge", "-p", `{"spec":{"paused":`+paused+`}}`)
		must(t, err)
	}
	pause("true")
	eventually(t, "no alert while the rule is paused", w.noneUp)
	eventually(t, "it is shown as paused", func(ctx context.Context) error {
		got, err := w.query(ctx, `roster_rule_paused{rule="unreadable"} == 1`)
		if err == nil && len(got) != len(fleet.Clusters) {
			err = fmt.Errorf("by %d agents", len(got))
		}
		return err
	})
	pause("false")
	eventually(t, "RosterRuleNotReady again", w.isUp("RosterRuleNotReady"))
	_, err = alpha.Kubectl(t.Context(), "delete", "resourcesyncrule", "unreadable")
	must(t, err)
	eventually(t, "no alert when the rule is gone", w.noneUp)

	must(t, beta.StopAPIServer(t.Context()))
	eventually(t, "RosterClusterUnreadable", w.isUp("RosterClusterUnreadable"))
	eventually(t, "it names beta", func(ctx context.Context) error {
		got, err := w.query(ctx, `ALERTS{alertname="RosterClusterUnreadable", peer="beta"}`)
		if err == nil && len(got) == 0 {
			err = errors.New("it does not")
		}
		return err
	})
	must(t, beta.KillAgent())
	eventually(t, "RosterMemberFailed", w.isUp("RosterMemberFailed"))
	must(t, alpha.StopAgent())
	eventually(t, "RosterAgentDown", w.isUp("RosterAgentDown"))
	// What it does not find is a Service.
	must(t, alpha.LaunchAgent("--keep-trying", "--mesh-advertise=", "--mesh-service=cluster-registry/none"))
	eventually(t, "RosterAgentNotReady", w.isUp("RosterAgentNotReady"))
}

func whole(ctx context.Context, fleet *harness.Fleet, at *harness.Cluster) error {
	for _, of := range fleet.Clusters {
		u, err := at.Dynamic.Resource(harness.Clusters()).Get(ctx, of.Name, metav1.GetOptions{})
		if err == nil {
			err = harness.ConditionTrue(u, "ClustersSynced")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// change has the Secret copied, and returns what changes it once more, so that there is a rate of everything.
func change(t *testing.T, from, to *harness.Cluster) func(context.Context) {
	t.Helper()
	n := 0
	var last time.Time
	again := func(ctx context.Context) {
		// More than the five a second that a copy may change are slowed down, which has an alert of its own.
		if time.Since(last) < 300*time.Millisecond {
			return
		}
		last = time.Now()
		n++
		if _, err := from.Apply(ctx, fmt.Sprintf(secret, n)); err != nil && ctx.Err() == nil {
			t.Error(err)
		}
	}
	again(t.Context())
	eventually(t, "the Secret is copied", func(ctx context.Context) error {
		_, err := to.Kube.CoreV1().Secrets(harness.Namespace).Get(ctx, "watched", metav1.GetOptions{})
		return err
	})
	return again
}

// garbage is what the mesh port drops.
func garbage(t *testing.T, c *harness.Cluster) {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", c.MeshPort))
	must(t, err)
	_, err = conn.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
	must(t, errors.Join(err, conn.Close()))
}

type query struct{ panel, expression string }

// queries are those of the dashboard, with Grafana's variables as it would fill them in.
func queries(t *testing.T, path string) []query {
	t.Helper()
	data, err := os.ReadFile(path)
	must(t, err)
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	must(t, json.Unmarshal(data, &dashboard))
	var all []query
	for _, p := range dashboard.Panels {
		if len(p.Targets) == 0 {
			t.Errorf("the panel %q has no query", p.Title)
		}
		for _, q := range p.Targets {
			all = append(all, query{p.Title, strings.NewReplacer("$job", ".*", "$instance", ".*", "$__rate_interval", "10s").Replace(q.Expr)})
		}
	}
	return all
}

// threshold is what an alert compares with.
var threshold = regexp.MustCompile(` (>|<|==) [0-9]+`)

// alertsAreWhole: each has a section that says what to do, and what it compares exists while all is well.
func alertsAreWhole(t *testing.T, w *watcher, runbook string) {
	t.Helper()
	text, err := os.ReadFile(runbook)
	must(t, err)
	all, err := w.alerts(t.Context())
	must(t, err)
	for _, a := range all {
		if link := a.Annotations["runbook_url"]; !strings.HasSuffix(link, "/docs/troubleshooting.md#"+strings.ToLower(a.Name)) {
			t.Errorf("alert %s: its runbook_url is %q", a.Name, link)
		}
		if !strings.Contains(string(text), "\n### "+a.Name+"\n") {
			t.Errorf("alert %s: troubleshooting.md has no section of that name", a.Name)
		}
		for expression := range strings.SplitSeq(threshold.ReplaceAllString(a.Query, ""), " or ") {
			if got, err := w.query(t.Context(), expression); err != nil || len(got) == 0 && !strings.HasPrefix(expression, "absent(") {
				t.Errorf("alert %s compares nothing: %s has %d series, %v", a.Name, expression, len(got), err)
			}
		}
	}
}
