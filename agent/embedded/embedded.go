// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package embedded runs the API server of a cluster without Kubernetes (--local embedded): the program roster-apiserver,
// which lies beside the agent's. It is started again when it ends, and it ends with the agent, also when that is killed.
package embedded

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/roster-mesh/roster/agent/loop"
)

// Program is the name of the API server's executable.
const Program = "roster-apiserver"

// Namespace is the one that the server makes for the agent.
const Namespace = "cluster-registry"

const (
	// slow is after how long a start says what it waits for.
	slow = 2 * time.Second
	// stopTimeout bounds how long the server may take to end: requests and writes to disk that are under way.
	stopTimeout = 30 * time.Second

	backoffFirst = 250 * time.Millisecond
	backoffMax   = 30 * time.Second
	// steady is how long a server must have run for its end to count as a first one.
	steady = time.Minute
)

// Options of Start. All but Advertise and Stderr are required.
type Options struct {
	Path        string // of the program
	DataDir     string // the server's own
	ClusterName string
	Listen      string // HOST:PORT
	Advertise   string // host at which peers reach the server
	LogFormat   string // json or text
	LogLevel    string
	Stderr      io.Writer // what the server logs; nil discards it
	Log         *slog.Logger
}

// Beside returns the path of the program beside this one.
func Beside() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	if self, err = filepath.EvalSymlinks(self); err != nil {
		return "", err
	}
	path := filepath.Join(filepath.Dir(self), Program)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%s is missing: put it beside the agent, from the same release", path)
	} else if err != nil {
		return "", err
	}
	return path, nil
}

// Server is a running API server.
type Server struct {
	o     Options
	end   context.CancelFunc
	ended sync.WaitGroup
}

// Start returns when the server serves. When it ends before that, the error is what it said.
func Start(ctx context.Context, o Options) (*Server, error) {
	running, end := context.WithCancel(context.WithoutCancel(ctx))
	s := &Server{o: o, end: end}
	first, err := s.launch(running)
	if err != nil {
		end()
		return nil, err
	}
	waiting := time.AfterFunc(slow, func() {
		o.Log.Info("waiting for the API server of this cluster", "program", o.Path, "dataDir", o.DataDir)
	})
	defer waiting.Stop()
	select {
	case <-first.ready:
	case <-first.done:
		end()
		return nil, first.err
	case <-ctx.Done():
		end()
		<-first.done
		return nil, ctx.Err()
	}
	s.ended.Go(func() { s.supervise(running, first) })
	return s, nil
}

// Kubeconfig is the path of the kubeconfig that the server made for the agent.
func (s *Server) Kubeconfig() string { return filepath.Join(s.o.DataDir, "agent.kubeconfig") }

// Stop ends the server. It returns when it has ended.
func (s *Server) Stop() {
	s.end()
	s.ended.Wait()
}

// supervise starts the server again when it ends, until ctx does.
func (s *Server) supervise(ctx context.Context, p *process) {
	for wait := backoffFirst; ; wait = min(2*wait, backoffMax) {
		s.await(p)
		if ctx.Err() != nil {
			return
		}
		if p.ran() > steady {
			wait = backoffFirst
		}
		s.o.Log.Error("the API server of this cluster ended, and is started again", "error", p.err, "after", wait)
		if loop.Sleep(ctx, wait); ctx.Err() != nil {
			return
		}
		next, err := s.launch(ctx)
		if err != nil {
			next = failed(err)
		}
		p = next
	}
}

// await returns when the server has ended. While it does not serve, it says so from time to time.
func (s *Server) await(p *process) {
	tick := time.NewTicker(steady)
	defer tick.Stop()
	for {
		select {
		case <-p.ready:
			<-p.done
			return
		case <-p.done:
			return
		case <-tick.C:
			s.o.Log.Warn("the API server of this cluster does not serve yet: its log says what it waits for", "since", time.Since(p.began).Round(time.Second))
		}
	}
}

// process is one run of the program.
type process struct {
	began, end time.Time
	ready      chan struct{} // closed when it serves
	done       chan struct{} // closed when it has ended
	err        error         // why; valid after done
}

// failed is a process that could not be started.
func failed(err error) *process {
	p := &process{done: make(chan struct{}), err: err}
	close(p.done)
	return p
}

// ran is how long it ran; valid after done.
func (p *process) ran() time.Duration { return p.end.Sub(p.began) }

// launch starts the program. When ctx ends, the program's standard input closes, on which it ends in order.
func (s *Server) launch(ctx context.Context) (*process, error) {
	cmd := exec.CommandContext(ctx, s.o.Path, s.args()...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	said := &lastWords{to: s.o.Stderr}
	cmd.Stderr = said
	// A ^C in a terminal is for the agent, which needs the server until it has ended itself.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = stdin.Close
	cmd.WaitDelay = stopTimeout
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", s.o.Path, err)
	}
	p := &process{began: time.Now(), ready: make(chan struct{}), done: make(chan struct{})}
	go func() {
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			if lines.Text() == "ready" {
				close(p.ready)
				break
			}
		}
		_, _ = io.Copy(io.Discard, stdout) // it says nothing more
		err := cmd.Wait()
		said.flush()
		p.end, p.err = time.Now(), said.explain(err)
		close(p.done)
	}()
	return p, nil
}

func (s *Server) args() []string {
	args := []string{
		"standalone", "--until-stdin-closes",
		"--data-dir=" + s.o.DataDir, "--listen=" + s.o.Listen,
		"--log-format=" + s.o.LogFormat, "--log-level=" + s.o.LogLevel,
	}
	if s.o.ClusterName != "" {
		args = append(args, "--cluster-name="+s.o.ClusterName)
	}
	if s.o.Advertise != "" {
		args = append(args, "--advertise="+s.o.Advertise)
	}
	return args
}

// lastWords passes on what the server logs, and keeps the line with which it ends.
type lastWords struct {
	to   io.Writer
	rest []byte // of a line that has not ended
	line string
}

// Write implements io.Writer. That a line cannot be passed on, as when the disk of the log is full, is no error: nobody
// would read what the server logs from then on, and it would end with its next line. A log that blocks, such as a terminal
// that is stopped, blocks the server as it does the agent, which logs to the same.
func (w *lastWords) Write(data []byte) (int, error) {
	w.rest = append(w.rest, data...)
	for {
		line, rest, whole := bytes.Cut(w.rest, []byte("\n"))
		if !whole {
			return len(data), nil
		}
		if text, ok := strings.CutPrefix(string(line), Program+": "); ok {
			w.line = text
		} else if w.to != nil {
			_, _ = w.to.Write(append(line, '\n'))
		}
		w.rest = bytes.Clone(rest)
	}
}

// flush passes on a line that was cut off.
func (w *lastWords) flush() {
	if len(w.rest) > 0 {
		_, _ = w.Write([]byte("\n"))
	}
}

// explain returns why the server ended. Flags have the names that they have here.
func (w *lastWords) explain(err error) error {
	if w.line == "" {
		if err == nil {
			err = errors.New("it ended by itself")
		}
		return fmt.Errorf("%s: %w", Program, err)
	}
	return fmt.Errorf("%s: %s", Program, strings.ReplaceAll(w.line, "--listen", "--local-listen"))
}
