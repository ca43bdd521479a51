// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/roster-mesh/roster/e2e/harness"
)

// usage is what an agent and its API server have used so far.
type usage struct {
	harness.Memory
	cpu      time.Duration // the agent's
	server   time.Duration // the API server's CPU
	requests requests
	watches  float64 // open now
}

func readUsage(ctx context.Context, c *harness.Cluster) (usage, error) {
	var u usage
	var err error
	if u.Memory, err = harness.ReadMemory(c.AgentPID()); err != nil {
		return u, err
	}
	if u.cpu, err = harness.CPUTime(c.AgentPID()); err != nil {
		return u, err
	}
	page, err := metricsPage(ctx, c)
	if err != nil {
		return u, err
	}
	if u.server, err = cpuOf(page); err != nil {
		return u, err
	}
	u.requests, u.watches, err = parseMetrics(page)
	return u, err
}

func readUsages(ctx context.Context, clusters []*harness.Cluster) ([]usage, error) {
	out := make([]usage, len(clusters))
	for i, c := range clusters {
		var err error
		if out[i], err = readUsage(ctx, c); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// metricsPage is what the API server tells of itself.
func metricsPage(ctx context.Context, c *harness.Cluster) ([]byte, error) {
	page, err := c.Kube.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("metrics of the API server of %s: %w", c.Name, err)
	}
	return page, nil
}

// cpuOf is what the process has used whose metrics page it is.
func cpuOf(page []byte) (time.Duration, error) {
	for line := range bytes.Lines(page) {
		if text, ok := strings.CutPrefix(string(line), "process_cpu_seconds_total "); ok {
			seconds, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
			return time.Duration(seconds * float64(time.Second)), err
		}
	}
	return 0, errors.New("the API server does not tell its CPU time")
}

// collectGarbage has all API servers collect theirs, by way of their profiles. Some rounds would have a collection in
// them else, and some two.
func collectGarbage(ctx context.Context, clusters []*harness.Cluster) error {
	for _, c := range clusters {
		if _, err := c.Kube.Discovery().RESTClient().Get().AbsPath("/debug/pprof/heap").Param("gc", "1").DoRaw(ctx); err != nil {
			return fmt.Errorf("garbage of the API server of %s: %w", c.Name, err)
		}
	}
	return nil
}

// requests are counts by "VERB resource" of the resources that agents use. The API server does not say who
// asked, but nobody else writes these.
type requests map[string]float64

// parseMetrics reads apiserver_request_total and apiserver_longrunning_requests of an API server's metrics page.
func parseMetrics(page []byte) (counts requests, watches float64, err error) {
	counts = requests{}
	lines := bufio.NewScanner(bytes.NewReader(page))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		labels, text, found := strings.Cut(lines.Text(), "} ")
		labels, finished := strings.CutPrefix(labels, "apiserver_request_total{")
		labels, open := strings.CutPrefix(labels, "apiserver_longrunning_requests{")
		if !found || !finished && !open {
			continue
		}
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, 0, fmt.Errorf("metrics: %w", err)
		}
		switch resource := ours(labels); {
		case open && label(labels, "verb") == "WATCH":
			watches += value
		case finished && resource != "":
			counts[label(labels, "verb")+" "+resource] += value
		}
	}
	return counts, watches, lines.Err()
}

// ours is the resource that a line is about, "" when it is none that agents use.
func ours(labels string) string {
	resource := label(labels, "resource")
	if sub := label(labels, "subresource"); sub != "" {
		resource += "/" + sub
	}
	if slices.Contains([]string{"secrets", "clusters", "resourcesyncrules", "clusterfeatures", "events", "namespaces", "nodes", "serviceaccounts/token"}, strings.TrimSuffix(resource, "/status")) {
		return resource
	}
	return ""
}

// label finds a label's value in a line of the metrics format; none of these values holds a quote.
func label(labels, name string) string {
	for part := range strings.SplitSeq(labels, ",") {
		if value, found := strings.CutPrefix(part, name+`="`); found {
			return strings.TrimSuffix(value, `"`)
		}
	}
	return ""
}

// minus leaves out what did not grow.
func (r requests) minus(before requests) requests {
	out := requests{}
	for what, n := range r {
		if grown := n - before[what]; grown > 0 {
			out[what] = grown
		}
	}
	return out
}

// writes are those that change something.
func (r requests) writes() requests {
	out := maps.Clone(r)
	maps.DeleteFunc(out, func(what string, _ float64) bool { return !isWrite(what) })
	return out
}

// reads are the others. The end of a watch is none.
func (r requests) reads() requests {
	out := maps.Clone(r)
	maps.DeleteFunc(out, func(what string, _ float64) bool { return isWrite(what) || strings.HasPrefix(what, "WATCH ") })
	return out
}

func isWrite(what string) bool {
	verb, _, _ := strings.Cut(what, " ")
	return slices.Contains([]string{"POST", "PUT", "PATCH", "DELETE", "APPLY"}, verb)
}

// of counts the writes and the reads of one resource.
func (r requests) of(resource string) (writes, reads float64) {
	only := maps.Clone(r)
	maps.DeleteFunc(only, func(what string, _ float64) bool { return !strings.HasSuffix(what, " "+resource) })
	return only.writes().total(), only.reads().total()
}

func (r requests) total() float64 {
	var sum float64
	for _, n := range r {
		sum += n
	}
	return sum
}

// over prints the counts divided by n, in order.
func (r requests) over(n float64) string {
	var parts []string
	for _, what := range slices.Sorted(maps.Keys(r)) {
		if r[what] != 0 {
			parts = append(parts, fmt.Sprintf("%s %.3f", what, r[what]/n))
		}
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}
