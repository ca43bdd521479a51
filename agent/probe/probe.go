// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package probe checks a running agent from outside, over its HTTP port and its mesh port: is it ready, does its mesh
// port answer, and does it reach other members. `agent probe` and the chart's test run it.
package probe

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/roster-mesh/roster/mesh"
)

// ErrProbe is returned when an agent is unhealthy.
var ErrProbe = errors.New("unhealthy")

const (
	probeTimeout = 10 * time.Second
	maxProbe     = 4 << 20 // bytes of /metrics that are read
)

// Run checks a running agent and prints what it finds: whether it is ready, whether its mesh port answers, and how many
// members it reaches. The first check that fails is the error.
func Run(ctx context.Context, out io.Writer, url, meshAddress string) error {
	url = strings.TrimSuffix(url, "/")
	code, body, err := fetch(ctx, url+"/readyz")
	if err != nil {
		return err
	}
	if code != http.StatusOK {
		return fmt.Errorf("%w: %s/readyz: %s", ErrProbe, url, strings.TrimSpace(body))
	}
	fmt.Fprintln(out, "ready: yes")
	key, err := mesh.Probe(ctx, meshAddress)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "mesh: %s answers with key %s\n", meshAddress, base64.StdEncoding.EncodeToString(key))
	code, body, err = fetch(ctx, url+"/metrics")
	if err != nil {
		return err
	}
	if code != http.StatusOK {
		return fmt.Errorf("%w: %s/metrics: status %d", ErrProbe, url, code)
	}
	members := membersByState(body)
	fmt.Fprintf(out, "members: %d alive, %d suspect, %d failed\n", members["Alive"], members["Suspect"], members["Failed"])
	if members["Alive"] == 0 && members["Failed"] > 0 {
		return fmt.Errorf("%w: no other cluster of the group is reached: is this cluster cut off?", ErrProbe)
	}
	return nil
}

// membersByState reads the metric roster_mesh_members from the text format of Prometheus.
func membersByState(metrics string) map[string]int {
	line := regexp.MustCompile(`^roster_mesh_members\{state="([A-Za-z]+)"\} (\d+)$`)
	out := map[string]int{}
	for lines := bufio.NewScanner(strings.NewReader(metrics)); lines.Scan(); {
		if found := line.FindStringSubmatch(lines.Text()); found != nil {
			out[found[1]], _ = strconv.Atoi(found[2]) // it is digits
		}
	}
	return out
}

func fetch(ctx context.Context, url string) (code int, body string, err error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(io.LimitReader(answer.Body, maxProbe))
	if err != nil {
		return 0, "", fmt.Errorf("read %s: %w", url, err)
	}
	return answer.StatusCode, string(data), nil
}
