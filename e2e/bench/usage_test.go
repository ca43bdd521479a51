// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseMetrics(t *testing.T) {
	t.Parallel()
	page := `# HELP apiserver_request_total [STABLE] Counter of apiserver requests.
apiserver_request_total{code="201",component="apiserver",dry_run="",group="",resource="secrets",scope="resource",subresource="",verb="POST",version="v1"} 5
apiserver_request_total{code="409",component="apiserver",dry_run="",group="",resource="secrets",scope="resource",subresource="",verb="POST",version="v1"} 1
apiserver_request_total{code="200",component="apiserver",dry_run="",group="x",resource="clusters",scope="resource",subresource="status",verb="PUT",version="v1alpha1"} 2
apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="pods",scope="resource",subresource="",verb="LIST",version="v1"} 9
apiserver_request_duration_seconds_count{resource="secrets",verb="POST"} 7
apiserver_longrunning_requests{component="apiserver",group="",resource="secrets",scope="namespace",subresource="",verb="WATCH",version="v1"} 3
apiserver_longrunning_requests{component="apiserver",group="",resource="pods",scope="resource",subresource="exec",verb="CONNECT",version="v1"} 1
`
	got, watches, err := parseMetrics([]byte(page))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(requests{"POST secrets": 6, "PUT clusters/status": 2}, got); diff != "" {
		t.Error(diff)
	}
	if watches != 3 {
		t.Errorf("%v open watches", watches)
	}
	if writes, reads := got.of("secrets"); writes != 6 || reads != 0 {
		t.Errorf("%v writes, %v reads", writes, reads)
	}
	grown := got.minus(requests{"POST secrets": 4, "PUT clusters/status": 2})
	if diff := cmp.Diff(requests{"POST secrets": 2}, grown); diff != "" {
		t.Error(diff)
	}
}

func TestCPUOf(t *testing.T) {
	t.Parallel()
	if got, err := cpuOf([]byte("# TYPE process_cpu_seconds_total counter\nprocess_cpu_seconds_total 2.5\nx 1\n")); err != nil || got != 2500*time.Millisecond {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := cpuOf([]byte("x 1\n")); err == nil {
		t.Error("no error of a page without it")
	}
}

func TestPercentile(t *testing.T) {
	t.Parallel()
	var times []time.Duration
	for i := 100; i > 0; i-- {
		times = append(times, time.Duration(i))
	}
	if p50, p99 := percentile(times, 50), percentile(times, 99); p50 != 51 || p99 != 100 {
		t.Errorf("p50 %d, p99 %d", p50, p99)
	}
	if only := percentile([]time.Duration{7}, 99); only != 7 {
		t.Errorf("of one value: %d", only)
	}
}

func TestMedianRound(t *testing.T) {
	t.Parallel()
	usual, record := requests{"POST secrets": 1000}, requests{"POST secrets": 1000, "GET secrets": 1, "PUT secrets": 1}
	others := requests{"POST secrets": 1000, "POST events": 9}
	if diff := cmp.Diff(others, medianRound([]requests{record, others, others})); diff != "" {
		t.Error(diff)
	}
	for _, rounds := range [][]requests{{usual}, {usual, usual, record}, {record, usual, usual, usual}} {
		if diff := cmp.Diff(usual, medianRound(rounds)); diff != "" {
			t.Error(diff)
		}
	}
	if diff := cmp.Diff(record, medianRound([]requests{usual, record, record})); diff != "" {
		t.Error(diff)
	}
}
