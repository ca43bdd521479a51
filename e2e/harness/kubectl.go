// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/version"
)

// findKubectl returns the path of a kubectl that may be used with the API server. The one of PATH is preferred.
func findKubectl(ctx context.Context, root, server string, out io.Writer) (string, error) {
	want, err := builtFor(server)
	if err != nil {
		return "", err
	}
	if path, err := exec.LookPath("kubectl"); err == nil && madeFor(ctx, path, want) {
		return path, nil
	}
	cmd := exec.CommandContext(ctx, filepath.Join(root, "e2e", "testbed", "build.sh"), "kubectl")
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // it ends the compiler
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("PATH has no kubectl for Kubernetes %s, and it cannot be built: %w", want, err)
	}
	return filepath.Join(root, "e2e", "testbed", "bin", "kubectl"), nil
}

// madeFor reports whether a kubectl may be used with an API server of this version.
func madeFor(ctx context.Context, kubectl string, server *version.Version) bool {
	out, err := exec.CommandContext(ctx, kubectl, "version", "--client", "-o", "json").Output()
	if err != nil {
		return false
	}
	have, err := clientVersion(out)
	return err == nil && withinSkew(have, server)
}

// builtFor returns the version of Kubernetes that an API server was built from.
func builtFor(server string) (*version.Version, error) {
	info, err := buildinfo.ReadFile(server)
	if err != nil {
		return nil, err
	}
	for _, module := range info.Deps {
		if module.Path == "k8s.io/kubernetes" {
			return version.ParseSemantic(module.Version)
		}
	}
	return nil, fmt.Errorf("%s is not built from Kubernetes", server)
}

// clientVersion reads what `kubectl version --client -o json` prints.
func clientVersion(data []byte) (*version.Version, error) {
	var answer struct {
		ClientVersion struct {
			GitVersion string `json:"gitVersion"`
		} `json:"clientVersion"`
	}
	if err := json.Unmarshal(data, &answer); err != nil {
		return nil, err
	}
	return version.ParseGeneric(answer.ClientVersion.GitVersion)
}

// withinSkew reports whether Kubernetes supports this kubectl with this API server: one minor version apart at most.
func withinSkew(kubectl, server *version.Version) bool {
	return kubectl.Major() == server.Major() && kubectl.Minor() <= server.Minor()+1 && server.Minor() <= kubectl.Minor()+1
}

// Shell runs a script with sh, in a folder, as a person would type it: kubectl and agentctl lead to every cluster of the
// fleet. It ends with the first command that fails.
func (f *Fleet) Shell(ctx context.Context, dir, script string) (string, error) {
	cmd := exec.CommandContext(ctx, "sh", "-euc", script)
	cmd.Dir = dir
	cmd.Env = append(f.environ(), fmt.Sprintf("PATH=%s:%s:%s", filepath.Dir(f.bin.Kubectl), filepath.Dir(f.bin.Agentctl), os.Getenv("PATH")))
	return run(ctx, cmd)
}
