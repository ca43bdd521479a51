// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
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
	memory   int
	cpu      time.Duration
	requests requests
}

func readUsage(ctx context.Context, c *harness.Cluster) (usage, error) {
	var u usage
	var err error
	if u.memory, err = harness.ResidentMemory(c.AgentPID()); err != nil {
		return u, err
	}
	if u.cpu, err = harness.CPUTime(c.AgentPID()); err != nil {
		return u, err
	}
	page, err := c.Kube.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return u, fmt.Errorf("metrics of the API server of %s: %w", c.Name, err)
	}
	u.requests, err = parseRequests(page)
	return u, err
}

// requests are counts by "VERB resource" of the resources that agents use. The API server does not say who
// asked, but nobody else writes these.
type requests map[string]float64

// parseRequests reads apiserver_request_total of an API server's metrics page.
func parseRequests(page []byte) (requests, error) {
	out := requests{}
	lines := bufio.NewScanner(bytes.NewReader(page))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		labels, value, found := strings.Cut(lines.Text(), "} ")
		labels, ours := strings.CutPrefix(labels, "apiserver_request_total{")
		if !found || !ours {
			continue
		}
		resource := label(labels, "resource")
		if sub := label(labels, "subresource"); sub != "" {
			resource += "/" + sub
		}
		if !slices.Contains([]string{"secrets", "clusters", "resourcesyncrules", "clusterfeatures", "events", "namespaces", "nodes", "serviceaccounts/token"}, strings.TrimSuffix(resource, "/status")) {
			continue
		}
		count, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return nil, fmt.Errorf("apiserver_request_total: %w", err)
		}
		out[label(labels, "verb")+" "+resource] += count
	}
	return out, lines.Err()
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
	out := requests{}
	for what, n := range r {
		switch verb, _, _ := strings.Cut(what, " "); verb {
		case "POST", "PUT", "PATCH", "DELETE", "APPLY":
			out[what] = n
		}
	}
	return out
}

// over prints the counts divided by n, in order.
func (r requests) over(n float64) string {
	if len(r) == 0 {
		return "none"
	}
	var parts []string
	for _, what := range slices.Sorted(maps.Keys(r)) {
		parts = append(parts, fmt.Sprintf("%s %.3f", what, r[what]/n))
	}
	return strings.Join(parts, ", ")
}
