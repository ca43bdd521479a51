// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// ErrNotBuilt is returned when a program that the harness runs has not been built. The error says how that is done.
var ErrNotBuilt = errors.New("not built yet")

// Binaries are the absolute paths of what the harness runs.
type Binaries struct {
	Root                   string // of the checkout
	Testbed, Kubectl, Helm string
	Agent, Agentctl        string
	Chart                  string // a folder
	// Kubernetes is the version of the API servers, newest or oldest; or standalone, for Roster's own. A list with commas
	// has one for each cluster.
	Kubernetes string
}

// Standalone is the kind of cluster that is Roster's own API server alone.
const Standalone = "standalone"

// EnvKubernetes is the environment variable that chooses the version; without it the newest is run.
const EnvKubernetes = "ROSTER_E2E_KUBERNETES"

// FindBinaries finds what the testbed takes, in the checkout that holds the working directory.
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
	return b, b.check("testbed build", b.Testbed, b.Kubectl, b.Helm, b.Agent, b.Agentctl)
}

// Kubectls are the kubectls that were built, of up to three minor versions: the newest, the one before it and the oldest.
func (b Binaries) Kubectls() (paths []string) {
	for _, suffix := range []string{"", "-middle", "-oldest"} {
		if _, err := os.Stat(b.Kubectl + suffix); err == nil {
			paths = append(paths, b.Kubectl+suffix)
		}
	}
	return paths
}

// FindEmbedded finds what embedded clusters take; the rest is empty. kubectl is that of PATH if it is made for the version
// of the API server. Otherwise it is built, unless it has been; out tells.
func FindEmbedded(ctx context.Context, out io.Writer) (Binaries, error) {
	root, err := findRoot()
	if err != nil {
		return Binaries{}, err
	}
	b := Binaries{
		Root:     root,
		Agent:    filepath.Join(root, "bin", "agent"),
		Agentctl: filepath.Join(root, "bin", "agentctl"),
	}
	server := filepath.Join(root, "bin", "roster-apiserver")
	if err := b.check("build apiserver", b.Agent, b.Agentctl, server); err != nil {
		return Binaries{}, err
	}
	b.Kubectl, err = findKubectl(ctx, root, server, out)
	return b, err
}

// FindPacked finds what embedded clusters take in the folder bin beside the program that runs, as in the archive of the demo. It
// reports false where they are not there.
func FindPacked() (Binaries, bool) {
	program, err := os.Executable()
	if err != nil {
		return Binaries{}, false
	}
	root := filepath.Dir(program)
	at := func(name string) string { return filepath.Join(root, "bin", name) }
	b := Binaries{Root: root, Agent: at("agent"), Agentctl: at("agentctl"), Kubectl: at("kubectl")}
	return b, b.check("release-archive", b.Agent, b.Agentctl, b.Kubectl, at("roster-apiserver")) == nil
}

// check returns an error when a program is missing, which names the make targets that build it.
func (b Binaries) check(targets string, paths ...string) error {
	var missing []string
	for _, path := range paths {
		if _, err := os.Stat(path); err != nil {
			rel, _ := filepath.Rel(b.Root, path)
			missing = append(missing, rel)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("%w: %s; run `make %s` first", ErrNotBuilt, strings.Join(missing, ", "), targets)
	}
	return nil
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
