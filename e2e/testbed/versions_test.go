// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// The newest three minor versions of Kubernetes are supported: what the README and the chart say is what the tests run.
func TestSupportedVersions(t *testing.T) {
	t.Parallel()
	newest, oldest := minor(t, "go.mod"), minor(t, filepath.Join("oldest", "go.mod"))
	if newest-oldest != 2 {
		t.Errorf("go.mod has Kubernetes 1.%d and oldest/go.mod 1.%d, which are not three minor versions", newest, oldest)
	}
	readme, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("1.%d to 1.%d", oldest, newest); !strings.Contains(string(readme), want) {
		t.Errorf("the README does not say that %s are supported", want)
	}
	chart, err := os.ReadFile(filepath.Join("..", "..", "charts", "agent", "Chart.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf(`kubeVersion: ">=1.%d.0-0"`, oldest); !strings.Contains(string(chart), want) {
		t.Errorf("the chart has no %s", want)
	}
}

func minor(t *testing.T, file string) int {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`\bk8s\.io/kubernetes v1\.(\d+)\.`).FindSubmatch(data)
	if found == nil {
		t.Fatalf("%s names no version of Kubernetes", file)
	}
	n, err := strconv.Atoi(string(found[1]))
	if err != nil {
		t.Fatal(err)
	}
	return n
}
