// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/e2e/harness"
)

// retryWindow is how long the requests of agents that may not do what a rule needs are counted, twice.
const retryWindow = 10 * time.Second

// What agents are not allowed to read is asked for less and less often, with the questions about rights that go
// with it.
func TestParityC15_RefusalsBackOff(t *testing.T) {
	r := newRoom(t)
	asked := func() (refusals, questions float64) {
		page, err := r.beta.Kube.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		// What is refused is not counted as a request, but passes one filter and not the next.
		passed, err := sums(page, "apiserver_request_filter_duration_seconds_count", func(label func(string) string) string { return label("filter") })
		if err != nil {
			t.Fatal(err)
		}
		reviews, err := sums(page, "apiserver_request_total", func(label func(string) string) string {
			return map[bool]string{true: "reviews"}[label("resource") == "selfsubjectaccessreviews"]
		})
		if err != nil {
			t.Fatal(err)
		}
		return passed["authentication"] - passed["authorization"], reviews["reviews"]
	}
	refused, reviewed := asked()
	r.rule(t, r.alpha, "forbidden", "groupVersionKind: {group: coordination.k8s.io, version: v1, kind: Lease}, rules: [{match: [{namespaces: [NS]}]}]")
	eventually(t, "beta may not read its own Leases", within, r.ruleSays(r.beta, "forbidden", "False", "MissingPermission"))
	// Three agents ask beta's API server. Tries after 0.2 s, 0.6 s, 1.4 s … are six in the first 10 s and one or
	// two in the next, and reviews, of up to seven rights each, come after 5 s, 15 s …; a loop without back-off
	// makes hundreds, and one that tries each second more than these.
	for i, most := range []struct{ refusals, reviews float64 }{{100, 100}, {20, 60}} {
		pass(t, retryWindow)
		nowRefused, nowReviewed := asked()
		t.Logf("within %s %v requests were refused, %v reviews made", retryWindow, nowRefused-refused, nowReviewed-reviewed)
		if i == 0 && nowRefused == refused {
			t.Error("nothing was refused, so this proves nothing")
		}
		if nowRefused-refused > most.refusals || nowReviewed-reviewed > most.reviews {
			t.Errorf("that is no back-off: at most %v and %v", most.refusals, most.reviews)
		}
		refused, reviewed = nowRefused, nowReviewed
	}
}

// pass lets real time pass, in which agents are looked at to be alive: what does not happen has no event.
func pass(t *testing.T, d time.Duration) {
	t.Helper()
	stays(t, "agents stay up", d, func(ctx context.Context) error {
		return errors.Join(shared.g.alpha.AgentAlive(ctx), shared.g.beta.AgentAlive(ctx), shared.g.gamma.AgentAlive(ctx))
	})
}

const (
	unwanted     = 5000    // objects
	unwantedSize = 8 << 10 // bytes of each
)

// Only what matches is held. Where a rule selects by labels the rest is not even sent.
func TestParityC16_OnlyWhatMatchesIsHeld(t *testing.T) {
	r := newRoom(t)
	r.rule(t, r.alpha, "wanted", ofConfigMaps+"rules: [{"+forLabel("wanted")+"}]")
	put(t, r.gamma, configMaps, r.object(configMaps, "first", "wanted", "one"))
	r.eventuallyCopied(t, configMaps, "first", "one", r.beta)
	const whole = unwanted * unwantedSize

	allocated := metric(t, r.beta, "go_memstats_alloc_bytes_total")
	many(t, r.gamma, r.name, "unwanted", "unwanted", unwanted, unwantedSize)
	put(t, r.gamma, configMaps, r.object(configMaps, "second", "wanted", "one"))
	r.eventuallyCopied(t, configMaps, "second", "one", r.beta)
	grown := metric(t, r.beta, "go_memstats_alloc_bytes_total") - allocated
	t.Logf("while %d MiB that do not match were made, beta's agent allocated %.1f MiB", whole>>20, grown/(1<<20))
	if grown > whole/2 {
		t.Error("so they were sent to it")
	}
	// No API server can select by annotation, so all are sent, but few are held: by an agent that has just
	// started, and so holds no garbage of earlier tests either.
	without(t, r.beta, func() { put(t, r.gamma, configMaps, r.object(configMaps, "third", "wanted", "one")) })
	r.eventuallyCopied(t, configMaps, "third", "one", r.beta)
	before := anonymousMemory(t, r.beta)
	r.rule(t, r.alpha, "noted", ofConfigMaps+"rules: [{match: [{namespaces: [NS], annotations: [{matchAnnotations: {example.com/noted: https://x}}]}]}]")
	noted := r.object(configMaps, "noted", "none", "one")
	noted.SetAnnotations(map[string]string{"example.com/noted": "https://x"})
	put(t, r.gamma, configMaps, noted)
	r.eventuallyCopied(t, configMaps, "noted", "one", r.beta)
	now := anonymousMemory(t, r.beta)
	t.Logf("after all were read, its memory is %.1f MiB, before %.1f MiB", float64(now)/(1<<20), float64(before)/(1<<20))
	if now-before > whole/2 {
		t.Error("so they are held")
	}
	eventually(t, "the rule is Ready", afterFault, r.ruleSays(r.beta, "noted", "True", "Synced"))
}

// many creates ConfigMaps NAME-0 and so on, with some bytes each.
func many(t *testing.T, c *harness.Cluster, namespace, name, label string, n, size int) (rate float64) {
	t.Helper()
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(8)
	began := time.Now()
	value := strings.Repeat("x", size)
	for i := range n {
		group.Go(func() error {
			_, err := c.Kube.CoreV1().ConfigMaps(namespace).Create(ctx, &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", name, i), Labels: map[string]string{"for": label}},
				Data:       map[string]string{"v": value},
			}, metav1.CreateOptions{})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d ConfigMaps made in %s in %s", n, c.Name, time.Since(began))
	return float64(n) / time.Since(began).Seconds()
}

// metric is the value of a metric without labels of an agent.
func metric(t *testing.T, c *harness.Cluster, name string) float64 {
	t.Helper()
	page, err := c.AgentHTTP(t.Context(), "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(page) {
		if text, found := strings.CutPrefix(line, name+" "); found {
			value, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
			if err != nil {
				t.Fatal(err)
			}
			return value
		}
	}
	t.Fatalf("the agent has no metric %s", name)
	return 0
}

// anonymousMemory is what an agent holds beside its mapped program, in bytes.
func anonymousMemory(t *testing.T, c *harness.Cluster) int {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.AgentPID()))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if text, found := strings.CutPrefix(line, "RssAnon:"); found {
			kib, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(text), " kB"))
			if err != nil {
				t.Fatal(err)
			}
			return kib << 10
		}
	}
	t.Fatal("the agent has no memory")
	return 0
}

const (
	bulk       = 500
	peersLimit = 20.0 // requests a second, of the existing controller
	flagLimit  = 20
	capped     = 100
)

// Nothing of our own limits how fast copies are written, unless a flag does.
func TestParityC22_NoLimitOfOurOwn(t *testing.T) {
	r := newRoom(t)
	plain := many(t, r.gamma, r.name, "free", "free", bulk, 1<<10)
	many(t, r.gamma, r.name, "capped", "capped", capped, 1<<10)
	rate := func(label string, n int) float64 {
		began := time.Now()
		r.rule(t, r.alpha, label, ofConfigMaps+"rules: [{"+forLabel(label)+"}]")
		eventually(t, fmt.Sprintf("%d copies in beta", n), afterFault, func(ctx context.Context) error {
			list, err := r.beta.Kube.CoreV1().ConfigMaps(r.name).List(ctx, metav1.ListOptions{LabelSelector: "for=" + label})
			if err == nil && len(list.Items) != n {
				err = fmt.Errorf("there are %d", len(list.Items))
			}
			return err
		})
		return float64(n) / time.Since(began).Seconds()
	}
	free := rate("free", bulk)
	if free < max(1.5*peersLimit, min(3*peersLimit, plain/3)) { // it includes a start of kubectl, and this machine may be slow
		t.Errorf("%.0f copies a second; %.0f objects a second were made", free, plain)
	}
	if err := r.beta.KillAgent(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.beta.RestartAgent(lasting(t)); err != nil {
			t.Error(err)
		}
	})
	if err := r.beta.StartAgent(t.Context(), "--kube-api-qps", strconv.Itoa(flagLimit)); err != nil {
		t.Fatal(err)
	}
	slow := rate("capped", capped)
	t.Logf("%.0f copies a second, with --kube-api-qps %d %.0f", free, flagLimit, slow)
	if slow > flagLimit*capped/(capped-flagLimit) { // one second's worth may be sent at once
		t.Errorf("with the flag still %.0f copies a second", slow)
	}
}

// idle is how long nothing may be written.
const idle = 20 * time.Second

// While nothing changes nothing is written: no lock, no time of the last look, no status.
func TestParityC23_IdleWritesNothing(t *testing.T) {
	r := newRoom(t)
	for _, c := range r.Clusters[:3] { // so that what agents record every ten minutes, if it is new, is not due
		if err := c.RestartAgent(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	r.rule(t, r.alpha, "all", ofConfigMaps+"rules: [{"+forLabel("all")+"}]")
	for i := range 3 {
		put(t, r.gamma, configMaps, r.object(configMaps, fmt.Sprintf("still-%d", i), "all", "one"))
		r.eventuallyCopied(t, configMaps, fmt.Sprintf("still-%d", i), "one", r.alpha, r.beta)
	}
	writes := func(ctx context.Context) (map[string]float64, error) {
		out := map[string]float64{}
		for _, c := range r.Clusters[:3] {
			all, err := requests(ctx, c)
			if err != nil {
				return nil, err
			}
			for what, n := range all {
				verb, resource, _ := strings.Cut(what, " ")
				// Control planes write Leases for ever; the agents have no right to.
				if slices.Contains([]string{"POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"}, verb) && resource != "leases" {
					out[c.Name+" "+what] = n
				}
			}
		}
		return out, nil
	}
	before, since := map[string]float64{}, time.Now()
	eventually(t, "control planes and agents are at rest", 3*afterFault, func(ctx context.Context) error {
		now, err := writes(ctx)
		if err != nil {
			return err
		}
		if !maps.Equal(before, now) {
			before, since = now, time.Now()
		}
		if time.Since(since) < 35*time.Second { // events sum up what happened within 30 s
			return errors.New("something was written a moment ago")
		}
		return nil
	})
	if before["gamma POST configmaps"] == 0 {
		t.Fatalf("writes are not counted, so this proves nothing: %v", before)
	}
	pass(t, idle)
	after, err := writes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for what, n := range after {
		if n != before[what] {
			t.Errorf("%v times %s within %s", n-before[what], what, idle)
		}
	}
	for _, space := range []string{harness.Namespace, harness.Namespace + "-private", harness.Namespace + "-readers"} {
		if list, err := r.alpha.Kube.CoordinationV1().Leases(space).List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) > 0 {
			t.Errorf("Leases in %s: %v %v", space, list, err)
		}
	}
}

// sums adds up a counter of a metrics page, by a function of its labels; "" leaves a line out.
func sums(page []byte, metric string, by func(label func(string) string) string) (map[string]float64, error) {
	out := map[string]float64{}
	lines := bufio.NewScanner(bytes.NewReader(page))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		labels, value, found := strings.Cut(lines.Text(), "} ")
		labels, ours := strings.CutPrefix(labels, metric+"{")
		if !found || !ours {
			continue
		}
		key := by(func(name string) string {
			_, rest, _ := strings.Cut(","+labels, ","+name+`="`)
			text, _, _ := strings.Cut(rest, `"`)
			return text
		})
		if key == "" {
			continue
		}
		count, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return nil, err
		}
		out[key] += count
	}
	return out, lines.Err()
}

// requests counts what an API server was asked so far, by "VERB resource".
func requests(ctx context.Context, c *harness.Cluster) (map[string]float64, error) {
	page, err := c.Kube.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("metrics of the API server of %s: %w", c.Name, err)
	}
	return sums(page, "apiserver_request_total", func(label func(string) string) string {
		return label("verb") + " " + strings.TrimSuffix(label("resource")+"/"+label("subresource"), "/")
	})
}
