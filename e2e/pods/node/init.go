// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// initSpec names, for pid 1 of a node, the file with its spec.
const initSpec = "ROSTER_PODS_NODE"

// What the gate says: go on with the parts that need the network, and with those that start pods.
const (
	gateNetwork = 'n'
	gateImages  = 'i'
)

// spec is all that pid 1 knows of its node.
type spec struct {
	Dir, Hostname, Address, Gateway string
	First, Second                   []part
}

// part is one program of a node.
type part struct {
	Name, Path string
	Args       []string
}

// Init is called first thing in main or TestMain. In pid 1 of a node it does that node's work and never returns;
// elsewhere it returns at once.
func Init() {
	path := os.Getenv(initSpec)
	if path == "" {
		return
	}
	log.SetFlags(log.Ldate | log.Lmicroseconds)
	log.Fatalf("the node ends: %v", runInit(path))
}

func runInit(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var s spec
	if err := json.Unmarshal(data, &s); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte(s.Hostname)); err != nil {
		return err
	}
	if err := s.mounts(); err != nil {
		return err
	}
	if err := awaitGate(gateNetwork); err != nil {
		return err
	}
	if err := s.network(); err != nil {
		return err
	}
	children := &children{dir: s.Dir, names: map[int]string{}}
	failed := make(chan error, 2)
	go func() { failed <- children.reap() }() // which ends only when a part has
	go func() {
		if err := s.start(children); err != nil {
			failed <- err
		}
	}()
	return <-failed
}

// start starts the parts in order. The controllers and the kubelet want an API server that serves.
func (s *spec) start(c *children) error {
	for _, p := range s.First {
		if err := c.start(p); err != nil {
			return err
		}
	}
	if err := awaitGate(gateImages); err != nil {
		return err
	}
	if err := s.awaitAPI(); err != nil {
		return err
	}
	for _, p := range s.Second {
		if err := c.start(p); err != nil {
			return err
		}
	}
	return nil
}

// awaitGate reads one byte from the process that started the node. Its end is the node's end, too.
func awaitGate(want byte) error {
	var got [1]byte
	if _, err := os.Stdin.Read(got[:]); err != nil {
		return fmt.Errorf("gate: %w", err)
	}
	if got[0] != want {
		return fmt.Errorf("gate: got %q, not %q", got[0], want)
	}
	return nil
}

// mounts makes the node's own view of the machine's files. Nothing of it is seen outside.
func (s *spec) mounts() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	// Volumes that the kubelet mounts must be seen by containerd's children.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("make mounts shared: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	// Folders whose paths are built into the programs.
	for _, dir := range []string{"/run", "/var/log", "/var/lib/kubelet", "/var/lib/cni", "/var/lib/containerd", "/opt/cni", "/etc/cni"} {
		if _, err := os.Stat(dir); err != nil {
			continue
		}
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=755"); err != nil {
			return fmt.Errorf("mount %s: %w", dir, err)
		}
	}
	for _, dir := range []string{"/run/lock", "/var/log/containers"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	return s.hideSysctls()
}

// hideSysctls lays files over the sysctls that the kubelet sets, with what it wants to read there: they are the
// machine's, not the node's.
func (s *spec) hideSysctls() error {
	for name, value := range map[string]string{
		"vm/overcommit_memory": "1", "vm/panic_on_oom": "0", "kernel/panic": "10", "kernel/panic_on_oops": "1",
		"kernel/keys/root_maxkeys": "1000000", "kernel/keys/root_maxbytes": "25000000",
	} {
		file := filepath.Join(s.Dir, "sysctl", name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(value+"\n"), 0o644); err != nil {
			return err
		}
		if err := unix.Mount(file, filepath.Join("/proc/sys", name), "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("hide sysctl %s: %w", name, err)
		}
	}
	return nil
}

// network gives the node its address. It runs before children are collected in the background.
func (s *spec) network() error {
	ctx := context.Background()
	for _, args := range []string{
		"link set lo up", "addr add " + s.Address + " dev eth0", "link set eth0 up", "route add default via " + s.Gateway,
	} {
		if _, err := ip(ctx, strings.Fields(args)...); err != nil {
			return err
		}
	}
	return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o600)
}

// awaitAPI returns when the API server serves. That it ends is seen elsewhere.
func (s *spec) awaitAPI() error {
	pki := filepath.Join(s.Dir, "pki")
	cert, err := tls.LoadX509KeyPair(filepath.Join(pki, "admin.crt"), filepath.Join(pki, "admin.key"))
	if err != nil {
		return err
	}
	ca, err := os.ReadFile(filepath.Join(pki, "ca.crt"))
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{
		RootCAs: roots, Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12,
	}}}
	defer client.CloseIdleConnections()
	for ; ; time.Sleep(poll) {
		answer, err := client.Get("https://127.0.0.1:6443/readyz") //nolint:noctx // It has a timeout.
		if err != nil {
			continue
		}
		answer.Body.Close() //nolint:errcheck // Nothing was read.
		if answer.StatusCode == http.StatusOK {
			return nil
		}
	}
}

// children are the parts of the node, and what becomes pid 1's by the end of its parent.
type children struct {
	dir   string
	mu    sync.Mutex // held over a start, so that no end is seen before it is known whose
	names map[int]string
}

func (c *children) start(p part) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	out, err := os.OpenFile(filepath.Join(c.dir, "log", p.Name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer out.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer null.Close()
	process, err := os.StartProcess(p.Path, append([]string{p.Path}, p.Args...), &os.ProcAttr{Dir: c.dir, Env: childEnv(), Files: []*os.File{null, out, out}})
	if err != nil {
		return fmt.Errorf("start %s: %w", p.Name, err)
	}
	c.names[process.Pid] = p.Name
	log.Printf("%s is process %d", p.Name, process.Pid)
	return process.Release()
}

// childEnv lacks what would make a child believe to be pid 1.
func childEnv() []string {
	var env []string
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, initSpec+"=") {
			env = append(env, kv)
		}
	}
	return env
}

// reap collects what ends, and returns when it was a part.
func (c *children) reap() error {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.ECHILD): // before the first start
			time.Sleep(poll)
			continue
		case err != nil:
			return err
		}
		c.mu.Lock()
		name, part := c.names[pid]
		c.mu.Unlock()
		if part {
			return fmt.Errorf("%s ended: exit status %d, signal %v", name, status.ExitStatus(), status.Signal())
		}
	}
}
