// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// inNamespace marks the process that already runs in its own network.
const inNamespace = "ROSTER_E2E_NETWORK_NAMESPACE"

// InNetworkNamespace is called first in main or TestMain. For root it runs this program once more in a network
// namespace of its own, where it may cut connections without harm to the machine, and ends with that
// program's status. There, and for other users, it returns; isolated says which.
func InNetworkNamespace() (isolated bool, err error) {
	if os.Getenv(inNamespace) != "" {
		return true, loopbackUp()
	}
	if os.Getuid() != 0 {
		return false, nil
	}
	runtime.LockOSThread() // the parent-death signal is tied to this thread
	//nolint:noctx // It is this program; signals end it.
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), inNamespace+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return false, fmt.Errorf("start in a network namespace: %w", err)
	}
	signals := make(chan os.Signal, 4)
	// SIGQUIT is how `go test` ends a test that takes too long: the child prints its goroutines.
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT)
	go func() {
		for s := range signals {
			cmd.Process.Signal(s) //nolint:errcheck // It may have ended.
		}
	}()
	err = cmd.Wait()
	var exit *exec.ExitError
	switch {
	case err == nil:
		os.Exit(0)
	case errors.As(err, &exit) && exit.Exited():
		os.Exit(exit.ExitCode())
	}
	return false, fmt.Errorf("in the network namespace: %w", err)
}

// loopbackUp switches on the one interface that a new network namespace has.
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("loopback: %w", err)
	}
	defer unix.Close(fd) //nolint:errcheck // Nothing was written.
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request); err != nil {
		return fmt.Errorf("switch loopback on: %w", err)
	}
	return nil
}

// cuts drops the packets between pairs of agents.
//
// Ports alone cannot tell two agents apart, as both connect from any port of 127.0.0.1. So each agent has
// a user, its new connections to another cluster's mesh port or API server are marked with the pair, and a
// cut drops what carries the mark: both directions of old and new connections.
type cuts struct {
	mu  sync.Mutex
	cut map[[2]int]bool
}

const table = "inet roster_e2e"

func newCuts(ctx context.Context, clusters []*Cluster) (*cuts, error) {
	if os.Getuid() != 0 || os.Getenv(inNamespace) == "" {
		return nil, errors.New("isolated agents need root and a network namespace of their own")
	}
	var rules strings.Builder
	fmt.Fprintf(&rules, "table %s {\n chain marks { type filter hook output priority -10;\n", table)
	for _, from := range clusters {
		from.uid = firstUser + from.Index - 1
		for _, to := range clusters {
			if from != to {
				fmt.Fprintf(&rules, "  meta skuid %d tcp dport { %d, %d } ct state new ct mark set %d\n",
					from.uid, to.MeshPort, to.APIPort, mark(from, to))
			}
		}
	}
	fmt.Fprint(&rules, " }\n chain cuts { type filter hook output priority 0;\n }\n}\n")
	if err := nft(ctx, rules.String()); err != nil {
		return nil, err
	}
	return &cuts{cut: map[[2]int]bool{}}, nil
}

func mark(from, to *Cluster) int { return from.Index<<8 | to.Index }

// Cut drops everything between the agents of two clusters and between each agent and the other's API
// server, without a word to either.
func (f *Fleet) Cut(ctx context.Context, a, b *Cluster) error {
	return f.cuts.set(ctx, mark(a, b), mark(b, a), true)
}

// Heal ends a cut.
func (f *Fleet) Heal(ctx context.Context, a, b *Cluster) error {
	return f.cuts.set(ctx, mark(a, b), mark(b, a), false)
}

func (c *cuts) set(ctx context.Context, there, back int, cut bool) error {
	if c == nil {
		return errors.New("this fleet was started without Isolate")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	pair := [2]int{min(there, back), max(there, back)}
	c.cut[pair] = cut
	var rules strings.Builder
	fmt.Fprintf(&rules, "flush chain %s cuts\n", table)
	for pair, cut := range c.cut {
		if cut {
			fmt.Fprintf(&rules, "add rule %s cuts ct mark { %d, %d } drop\n", table, pair[0], pair[1])
		}
	}
	return nft(ctx, rules.String())
}

func (c *cuts) close() error {
	return nft(context.Background(), fmt.Sprintf("delete table %s\n", table))
}

func nft(ctx context.Context, rules string) error {
	cmd := exec.CommandContext(ctx, "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(rules)
	if _, err := run(ctx, cmd); err != nil {
		return fmt.Errorf("nft (Debian package nftables): %w", err)
	}
	return nil
}
