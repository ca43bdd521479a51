// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
)

// ports are where one plane listens on 127.0.0.1.
type ports struct {
	APIServer int `json:"apiserver"`
	Etcd      int `json:"etcd"`
	EtcdPeer  int `json:"etcdPeer"`
}

func (p ports) all() []int { return []int{p.APIServer, p.Etcd, p.EtcdPeer} }

// loadPorts returns the ports kept in path when they are free, else new ones, which it keeps there.
func loadPorts(ctx context.Context, path string, chosen *chooser) (ports, error) {
	var kept ports
	data, err := os.ReadFile(path)
	switch {
	case err == nil:
		if err := json.Unmarshal(data, &kept); err != nil {
			return ports{}, fmt.Errorf("read %s: %w", path, err)
		}
		if chosen.take(ctx, kept.all()...) {
			return kept, nil
		}
	case !errors.Is(err, fs.ErrNotExist):
		return ports{}, err
	}
	var fresh ports
	for _, port := range []*int{&fresh.APIServer, &fresh.Etcd, &fresh.EtcdPeer} {
		if *port, err = chosen.choose(ctx); err != nil {
			return ports{}, err
		}
	}
	if data, err = json.Marshal(fresh); err != nil {
		return ports{}, err
	}
	return fresh, writeFile(path, data)
}

// chooser hands out free ports, each once. It stays below the range that the kernel takes the ports
// of outgoing connections from: else a client could occupy a stopped API server's port.
type chooser struct {
	low, high int
	taken     map[int]bool
}

func newChooser() *chooser {
	const low, usual = 15000, 32768
	high := usual
	if data, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range"); err == nil {
		if fields := strings.Fields(string(data)); len(fields) == 2 {
			if n, err := strconv.Atoi(fields[0]); err == nil {
				high = min(n, usual)
			}
		}
	}
	if high < low+1000 {
		high = usual // An unusual range: better a small risk than no port.
	}
	return &chooser{low: low, high: high, taken: map[int]bool{}}
}

// take reserves these ports if all of them are free.
func (c *chooser) take(ctx context.Context, wanted ...int) bool {
	for _, port := range wanted {
		if port <= 0 || c.taken[port] || !free(ctx, port) {
			return false
		}
	}
	for _, port := range wanted {
		c.taken[port] = true
	}
	return true
}

func (c *chooser) choose(ctx context.Context) (int, error) {
	for range 1000 {
		port := c.low + rand.IntN(c.high-c.low)
		if c.take(ctx, port) {
			return port, nil
		}
	}
	return 0, fmt.Errorf("no free port on 127.0.0.1 between %d and %d", c.low, c.high)
}

func free(ctx context.Context, port int) bool {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	return l.Close() == nil
}
