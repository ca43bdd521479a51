// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// agentReadyWithin bounds the start of one agent on a busy machine. One that starts an API server has as long as a testbed.
const agentReadyWithin = time.Minute

// EnvProcessors is how many processors agents take at a time, to compare; without it, that is theirs to decide.
const EnvProcessors = "ROSTER_E2E_AGENT_PROCESSORS"

// ErrAgentEnded is returned when an agent ended by itself; the text carries its last lines.
var ErrAgentEnded = errors.New("the agent ended")

// AgentFlags are the flags that StartAgent gives, for those that want to print or vary them.
func (c *Cluster) AgentFlags() []string {
	flags := []string{"--kubeconfig", c.AgentKubeconfig()}
	if c.fleet.embedded {
		flags = []string{"--local", "embedded", "--local-listen", loopback(c.APIPort)}
	}
	return append(flags,
		"--cluster-name", c.Name,
		"--data-dir", c.dataDir(),
		"--mesh-listen", loopback(c.MeshPort),
		"--mesh-advertise", loopback(c.MeshPort),
		"--http-listen", loopback(c.HTTPPort),
		"--log-format", "text",
	)
}

func loopback(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

// Runs makes the cluster install another chart and start another agent than the fleet's, from now on.
func (c *Cluster) Runs(program, chart string) { c.program, c.chart = program, chart }

// StartAgent starts the agent, with extra flags after the usual ones, and returns when it is ready.
func (c *Cluster) StartAgent(ctx context.Context, extra ...string) error {
	if err := c.LaunchAgent(extra...); err != nil {
		return err
	}
	within := agentReadyWithin
	if c.fleet.embedded {
		within = readyWithin
	}
	_, err := Wait(ctx, "agent "+c.Name+" ready", within, c.AgentReady)
	return err
}

// LaunchAgent starts the agent and does not wait for anything.
func (c *Cluster) LaunchAgent(extra ...string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.agent != nil && !c.agent.Ended() {
		return fmt.Errorf("agent %s runs already", c.Name)
	}
	data := c.dataDir()
	if err := os.MkdirAll(data, 0o700); err != nil {
		return err
	}
	if err := os.Chown(data, c.uid, -1); err != nil {
		return err
	}
	log, err := os.OpenFile(c.LogPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	//nolint:noctx // It is ended by a signal.
	cmd := exec.Command(cmp.Or(c.program, c.fleet.agent), append(append([]string{"run"}, c.AgentFlags()...), extra...)...)
	cmd.Dir = data
	if cmd.Env, err = agentEnv(data); err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr = log, log
	if c.uid != os.Getuid() {
		//nolint:gosec // A small positive number.
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(c.uid), Gid: uint32(c.uid)}}
	}
	c.agent, err = StartProcess(cmd)
	return err
}

// agentEnv is the environment of an agent with this home.
func agentEnv(home string) ([]string, error) {
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home}
	for _, name := range []string{"GOMEMLIMIT", "ROSTER_PPROF"} { // for measuring
		if value := os.Getenv(name); value != "" {
			env = append(env, name+"="+value)
		}
	}
	processors := os.Getenv(EnvProcessors)
	if processors == "" {
		return env, nil
	}
	if n, err := strconv.Atoi(processors); err != nil || n < 1 {
		return nil, fmt.Errorf("%s is %q, and must be a number from 1", EnvProcessors, processors)
	}
	return append(env, "GOMAXPROCS="+processors), nil
}

func (c *Cluster) agentEnded() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.agent == nil || c.agent.Ended()
}

// AgentPID is the agent's process id, or 0.
func (c *Cluster) AgentPID() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.agent == nil || c.agent.Ended() {
		return 0
	}
	return c.agent.PID()
}

// AgentReady asks the agent's /readyz.
func (c *Cluster) AgentReady(ctx context.Context) error {
	if err := c.AgentAlive(ctx); err != nil {
		return err
	}
	_, err := c.AgentHTTP(ctx, "/readyz")
	return err
}

// AgentHTTP reads a page of the agent's HTTP port.
func (c *Cluster) AgentHTTP(ctx context.Context, path string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s", c.HTTPPort, path), nil)
	if err != nil {
		return "", err
	}
	return readPage(request)
}

func readPage(request *http.Request) (string, error) {
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, tailSize))
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", request.URL.Path, answer.Status, strings.TrimSpace(string(body)))
	}
	return string(body), err
}

// KillAgent ends the agent as a crash does.
func (c *Cluster) KillAgent() error { return c.endAgent(syscall.SIGKILL) }

// StopAgent asks the agent to end. One that runs no more is no error.
func (c *Cluster) StopAgent() error { return c.endAgent(syscall.SIGTERM) }

func (c *Cluster) endAgent(sig syscall.Signal) error {
	c.mu.Lock()
	agent := c.agent
	c.agent = nil
	c.mu.Unlock()
	if agent == nil || agent.Ended() {
		return nil
	}
	return agent.Signal(sig, stopWithin)
}

// RestartAgent is a crash and a new start.
func (c *Cluster) RestartAgent(ctx context.Context) error {
	if err := c.KillAgent(); err != nil {
		return err
	}
	return c.StartAgent(ctx)
}

// LogPath is the file with everything that the agent has printed, over all its starts.
func (c *Cluster) LogPath() string { return filepath.Join(c.dir, "log") }

// Log is the content of the log file.
func (c *Cluster) Log() string {
	data, err := os.ReadFile(c.LogPath())
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// LogTail is the last n lines of the log.
func (c *Cluster) LogTail(n int) string {
	lines := strings.Split(strings.TrimSpace(c.Log()), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// AgentAlive returns nil while the agent's process runs.
func (c *Cluster) AgentAlive(context.Context) error {
	if c.agentEnded() {
		return fmt.Errorf("%s: %w: %s", c.Name, ErrAgentEnded, c.LogTail(3))
	}
	return nil
}
