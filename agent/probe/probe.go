// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package probe asks a running agent, over its HTTP and mesh ports, whether it is as it should be.
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

// ErrProbe is returned when an agent is not as it should be.
var ErrProbe = errors.New("unhealthy")

const (
	probeTimeout = 10 * time.Second
	maxProbe     = 4 << 20 // of /metrics that is read
)

// Run asks a running agent, from another pod, whether it is ready, whether its mesh port answers, and whom of its
// group it reaches, and prints what it finds. What is not in order is the error.
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

// membersByState reads the gauge roster_mesh_members from the text format of metrics.
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
