// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"k8s.io/klog/v2"
)

// Lines that client libraries log have the same keys as all others, and so has the last line of an agent that fails.
func TestJSONLines(t *testing.T) {
	var stdout, out bytes.Buffer
	code := run(t.Context(), []string{
		"agent", "run", "--log-format", "json", "--log-level", "debug",
		"--kubeconfig", "/nowhere", "--http-listen", "127.0.0.1:0", "--mesh-listen", "127.0.0.1:0",
	}, &stdout, &out)
	if code != exitFailed {
		t.Errorf("exit code %d", code)
	}
	// The agent has given the libraries, of which there is one in a process, its log.
	klog.InfoS("structured", "object", klog.KRef("a", "b"), "text", "two\nlines")
	klog.ErrorS(errors.New("broken"), "failed")
	klog.Warningf("plain %d", 1)
	klog.Flush()
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 4 {
		t.Errorf("%d lines:\n%s", len(lines), &out)
	}
	for _, line := range lines {
		var keys map[string]any
		if err := json.Unmarshal([]byte(line), &keys); err != nil {
			t.Errorf("not JSON: %s", line)
		}
		for _, key := range []string{"time", "level", "msg"} {
			if text, ok := keys[key].(string); !ok || text == "" {
				t.Errorf("no %s in %s", key, line)
			}
		}
	}
}
