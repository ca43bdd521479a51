// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// ErrNotBuilt is returned when a program that the harness runs has not been built. Its text says how.
var ErrNotBuilt = errors.New("run `make testbed build` first")

// Binaries are the absolute paths of what the harness runs.
type Binaries struct {
	Root                   string // of the checkout
	Testbed, Kubectl, Helm string
	Agent, Agentctl        string
	Chart                  string // a folder
	// Kubernetes is the version of the API servers, newest or oldest; or standalone, for Roster's own.
	Kubernetes string
}

const standalone = "standalone"

// EnvKubernetes is the environment variable that chooses the version; without it the newest is run.
const EnvKubernetes = "ROSTER_E2E_KUBERNETES"

// FindBinaries looks in the checkout that holds the working directory.
func FindBinaries() (Binaries, error) {
	root, err := findRoot()
	if err != nil {
		return Binaries{}, err
	}
	b := Binaries{
		Root:     root,
		Testbed:  filepath.Join(root, "bin", "testbed"),
		Kubectl:  filepath.Join(root, "e2e", "testbed", "bin", "kubectl"),
		Helm:     filepath.Join(root, "e2e", "testbed", "bin", "helm"),
		Agent:    filepath.Join(root, "bin", "agent"),
		Agentctl: filepath.Join(root, "bin", "agentctl"),
		Chart:    filepath.Join(root, "charts", "agent"),

		Kubernetes: cmp.Or(os.Getenv(EnvKubernetes), "newest"),
	}
	var missing []string
	for _, path := range []string{b.Testbed, b.Kubectl, b.Helm, b.Agent, b.Agentctl} {
		if _, err := os.Stat(path); err != nil {
			rel, _ := filepath.Rel(root, path)
			missing = append(missing, rel)
		}
	}
	if len(missing) > 0 {
		return Binaries{}, fmt.Errorf("not built yet: %s; %w", strings.Join(missing, ", "), ErrNotBuilt)
	}
	return b, nil
}

// findRoot walks up to the folder of Roster's go.mod; e2e/testbed has one of its own below it.
func findRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		data, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(data), "module github.com/roster-mesh/roster\n") {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("the working directory is not inside a checkout of roster")
		}
		dir = parent
	}
}
