// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Siblings are several agents of one cluster, behind one address: the cluster's mesh port, as of a Service.
type Siblings struct {
	Agents []*Sibling

	listener net.Listener
	wg       sync.WaitGroup
	mu       sync.Mutex
	conns    map[net.Conn]struct{}
}

// Sibling is one of several agents of a cluster.
type Sibling struct {
	Index    int
	MeshPort int
	HTTPPort int

	cluster *Cluster
	peers   string
	dir     string
	agent   *Process
}

// NewSiblings prepares n agents for a cluster, whose own one must not run, and listens for them.
func (c *Cluster) NewSiblings(ctx context.Context, n int) (*Siblings, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", c.MeshPort))
	if err != nil {
		return nil, err
	}
	all := &Siblings{listener: listener, conns: map[net.Conn]struct{}{}}
	var peers []string
	for i := range n {
		s := &Sibling{Index: i, cluster: c, dir: filepath.Join(c.dir, fmt.Sprintf("agent-%d", i))}
		if len(c.siblingPorts) <= i { // those that come later go on with the disks, which name the addresses of the group
			mesh, meshErr := choosePort(ctx)
			http, httpErr := choosePort(ctx)
			err = errors.Join(meshErr, httpErr)
			c.siblingPorts = append(c.siblingPorts, [2]int{mesh, http})
		}
		s.MeshPort, s.HTTPPort = c.siblingPorts[i][0], c.siblingPorts[i][1]
		if err != nil {
			return nil, errors.Join(err, listener.Close())
		}
		all.Agents = append(all.Agents, s)
		peers = append(peers, s.Address())
	}
	for _, s := range all.Agents {
		s.peers = strings.Join(peers, ",")
	}
	all.wg.Go(all.serve)
	return all, nil
}

// serve connects each connection with the next agent that takes it.
func (all *Siblings) serve() {
	for turn := 0; ; turn++ {
		conn, err := all.listener.Accept()
		if err != nil {
			return
		}
		all.wg.Go(func() {
			defer conn.Close()
			for i := range all.Agents {
				at := all.Agents[(turn+i)%len(all.Agents)].Address()
				to, err := (&net.Dialer{Timeout: time.Second}).Dial("tcp", at)
				if err != nil {
					continue
				}
				all.join(conn, to)
				return
			}
		})
	}
}

func (all *Siblings) join(a, b net.Conn) {
	all.mu.Lock()
	all.conns[a], all.conns[b] = struct{}{}, struct{}{}
	all.mu.Unlock()
	var wg sync.WaitGroup
	for _, pair := range [][2]net.Conn{{a, b}, {b, a}} {
		wg.Go(func() {
			_, _ = io.Copy(pair[0], pair[1])
			_ = pair[0].Close()
			_ = pair[1].Close()
		})
	}
	wg.Wait()
	all.mu.Lock()
	defer all.mu.Unlock()
	delete(all.conns, a)
	delete(all.conns, b)
}

// Close ends all agents, and gives the port back.
func (all *Siblings) Close() error {
	var errs []error
	for _, s := range all.Agents {
		errs = append(errs, s.end(syscall.SIGTERM))
	}
	errs = append(errs, all.listener.Close())
	all.mu.Lock()
	for conn := range all.conns {
		_ = conn.Close()
	}
	all.mu.Unlock()
	all.wg.Wait()
	return errors.Join(errs...)
}

// Leader is the agent that leads, as it says itself.
func (all *Siblings) Leader(ctx context.Context) (*Sibling, error) {
	var leaders []*Sibling
	for _, s := range all.Agents {
		page, err := s.HTTP(ctx, "/metrics")
		if err == nil && slices.Contains(strings.Split(page, "\n"), "roster_agents_leads 1") {
			leaders = append(leaders, s)
		}
	}
	if len(leaders) != 1 {
		return nil, fmt.Errorf("%d agents lead", len(leaders))
	}
	return leaders[0], nil
}

// AllReady returns nil when every agent says that it is ready.
func (all *Siblings) AllReady(ctx context.Context) error {
	for _, s := range all.Agents {
		if err := s.Ready(ctx); err != nil {
			return fmt.Errorf("agent %d: %w", s.Index, err)
		}
	}
	return nil
}

// Address is where the others reach this one.
func (s *Sibling) Address() string { return fmt.Sprintf("127.0.0.1:%d", s.MeshPort) }

// Launch starts the agent and does not wait for anything.
func (s *Sibling) Launch() error {
	data := filepath.Join(s.dir, "data")
	if err := os.MkdirAll(data, 0o700); err != nil {
		return err
	}
	for _, dir := range []string{s.dir, data} {
		if err := os.Chown(dir, s.cluster.uid, -1); err != nil {
			return err
		}
	}
	log, err := os.OpenFile(s.LogPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	flags := append([]string{"run"}, s.cluster.AgentFlags()...)
	flags = append(flags, "--data-dir", data, "--mesh-listen", s.Address(), "--http-listen", fmt.Sprintf("127.0.0.1:%d", s.HTTPPort),
		"--group-peers", s.peers, "--group-address", s.Address())
	//nolint:noctx // It is ended by a signal.
	cmd := exec.Command(s.cluster.fleet.agent, flags...)
	cmd.Dir = data
	if cmd.Env, err = agentEnv(data); err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr = log, log
	if s.cluster.uid != os.Getuid() {
		//nolint:gosec // A small positive number.
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(s.cluster.uid), Gid: uint32(s.cluster.uid)}}
	}
	s.agent, err = StartProcess(cmd)
	return err
}

// Kill ends the agent as a crash does.
func (s *Sibling) Kill() error { return s.end(syscall.SIGKILL) }

// Stop asks the agent to end.
func (s *Sibling) Stop() error { return s.end(syscall.SIGTERM) }

func (s *Sibling) end(sig syscall.Signal) error {
	agent := s.agent
	s.agent = nil
	if agent == nil || agent.Ended() {
		return nil
	}
	return agent.Signal(sig, stopWithin)
}

// LoseDisk removes the data directory of an agent that does not run.
func (s *Sibling) LoseDisk() error { return os.RemoveAll(filepath.Join(s.dir, "data")) }

// Ready asks the agent's /readyz.
func (s *Sibling) Ready(ctx context.Context) error {
	_, err := s.HTTP(ctx, "/readyz")
	return err
}

// HTTP reads a page of the agent's HTTP port.
func (s *Sibling) HTTP(ctx context.Context, path string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s", s.HTTPPort, path), nil)
	if err != nil {
		return "", err
	}
	return readPage(request)
}

// LogPath is the file with everything that the agent has printed.
func (s *Sibling) LogPath() string { return filepath.Join(s.dir, "log") }

// LogTail is the last n lines of the log.
func (s *Sibling) LogTail(n int) string {
	data, err := os.ReadFile(s.LogPath())
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
