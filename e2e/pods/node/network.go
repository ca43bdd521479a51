// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// The switch is a bridge in this process's network namespace, with this process's own address on it.
const (
	bridge     = "roster0"
	gateway    = "10.250.0.1"
	prefix     = "/24"
	nodePrefix = "10.250.0.1" // and the node's number
)

func makeSwitch(ctx context.Context) error {
	if links, err := ip(ctx, "-o", "link", "show"); err != nil {
		return err
	} else if strings.Count(strings.TrimSpace(links), "\n") > 0 {
		return errors.New("nodes want a network namespace of their own with nothing but loopback in it")
	}
	// The machine may hand its own settings to new namespaces; a router here would join the pod networks.
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("0"), 0o600); err != nil {
		return err
	}
	for _, args := range []string{
		"link add " + bridge + " type bridge",
		"link set " + bridge + " up",
		"addr add " + gateway + prefix + " dev " + bridge,
	} {
		if _, err := ip(ctx, strings.Fields(args)...); err != nil {
			return err
		}
	}
	return nil
}

// plug connects the network namespace of a process to the switch.
func (n *Node) plug(ctx context.Context, pid int) error {
	for _, args := range []string{
		fmt.Sprintf("link add %s type veth peer name eth0 address 02:00:0a:fa:00:1%d netns %d", n.port(), n.Number, pid),
		fmt.Sprintf("link set %s master %s up", n.port(), bridge),
		fmt.Sprintf("route replace %s via %s", n.podNet(), n.IP),
		fmt.Sprintf("route replace %s via %s", n.serviceNet(), n.IP),
	} {
		if _, err := ip(ctx, strings.Fields(args)...); err != nil {
			return err
		}
	}
	return nil
}

// unplug removes both ends. The kernel would do it some time after the namespace's end.
func (n *Node) unplug(ctx context.Context) error {
	if _, err := ip(ctx, "link", "show", n.port()); err != nil {
		return nil //nolint:nilerr // It is gone already.
	}
	_, err := ip(ctx, "link", "del", n.port())
	return err
}

// Cut takes the node off the switch: nobody reaches it or anything in it, and nobody is told.
func (n *Node) Cut(ctx context.Context) error {
	_, err := ip(ctx, "link", "set", n.port(), "down")
	return err
}

// Heal ends a cut. The routes to the cluster's own networks went with nothing: they lead to the bridge.
func (n *Node) Heal(ctx context.Context) error {
	_, err := ip(ctx, "link", "set", n.port(), "up")
	return err
}

func (n *Node) port() string { return fmt.Sprintf("v-%d", n.Number) }

func ip(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "ip", args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return string(out), nil
}
