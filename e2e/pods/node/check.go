// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// ErrUnfit is returned by Check on a machine that cannot run a node. The text says what is missing.
var ErrUnfit = errors.New("this machine cannot run Kubernetes nodes")

// ErrNotBuilt is returned by Check on a machine that could run a node and has not got what that takes.
var ErrNotBuilt = errors.New("no Kubernetes node can be run yet")

// Check says whether nodes can run here with the programs of these folders.
func Check(bins []string) error {
	if runtime.GOOS != "linux" {
		return fmt.Errorf("%w: it is not Linux", ErrUnfit)
	}
	if os.Getuid() != 0 {
		return fmt.Errorf("%w: it takes root", ErrUnfit)
	}
	roots, err := cgroupRoots()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnfit, err)
	}
	for _, controller := range controllers() {
		if !unified() && !exists(filepath.Join(cgroupFS, controller)) {
			return fmt.Errorf("%w: there is no cgroup hierarchy with the controller %s below %s", ErrUnfit, controller, cgroupFS)
		}
	}
	for _, root := range roots {
		if err := writable(root); err != nil {
			return fmt.Errorf("%w: no cgroup can be made: %w", ErrUnfit, err)
		}
	}
	var packages []string
	for command, name := range map[string]string{"ip": "iproute2", "nft": "nftables", "iptables": "iptables", "conntrack": "conntrack"} {
		if _, err := exec.LookPath(command); err != nil {
			packages = append(packages, name)
		}
	}
	if len(packages) > 0 {
		slices.Sort(packages)
		return fmt.Errorf("%w: install the packages %s", ErrNotBuilt, strings.Join(packages, " "))
	}
	for _, program := range programs() {
		if _, err := find(bins, program); err != nil {
			return fmt.Errorf("%w: run `make testbed pods-build`: %w", ErrNotBuilt, err)
		}
	}
	return nil
}

func writable(dir string) error {
	probe, err := os.MkdirTemp(dir, cgroupPrefix+"probe-")
	if err != nil {
		return err
	}
	return os.Remove(probe)
}

func programs() []string {
	return []string{
		"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "kubectl",
		"containerd", "containerd-shim-runc-v2", "ctr", "runc", "coredns", "pause",
		"ptp", "host-local", "loopback", "portmap",
	}
}

// find returns the path of a program.
func find(bins []string, program string) (string, error) {
	for _, dir := range bins {
		path := filepath.Join(dir, program)
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s is in none of %s", program, strings.Join(bins, ", "))
}
