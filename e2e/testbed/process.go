// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// spawner starts processes that die with this one.
//
// The kernel sends a child its parent-death signal when the thread that started it ends, not when
// the process does. Every child is therefore started from one goroutine that holds its thread for
// as long as the program runs.
type spawner struct {
	requests chan spawnRequest
}

type spawnRequest struct {
	cmd   *exec.Cmd
	reply chan error
}

func newSpawner() *spawner {
	s := &spawner{requests: make(chan spawnRequest)}
	go func() {
		runtime.LockOSThread()
		for r := range s.requests {
			r.reply <- r.cmd.Start()
		}
	}()
	return s
}

// process is one running child. Its exit is collected in the background.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the child has been collected
	err  error         // how it ended; read after done
}

// spawn starts path in its own process group, so that Ctrl-C in a terminal reaches the testbed
// alone, which then stops its children in order. Output is appended to log.
func (s *spawner) spawn(path string, args []string, log, dir string) (*process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd := &exec.Cmd{
		Path:   path,
		Args:   append([]string{path}, args...),
		Dir:    dir,
		Env:    []string{"HOME=" + dir, "TMPDIR=" + dir, "PATH=" + os.Getenv("PATH")},
		Stdout: out,
		Stderr: out,
		SysProcAttr: &syscall.SysProcAttr{
			Setpgid:   true,
			Pdeathsig: syscall.SIGKILL,
		},
	}
	reply := make(chan error)
	s.requests <- spawnRequest{cmd: cmd, reply: reply}
	if err := <-reply; err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, done: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// signal sends sig; a process that is gone already is no error.
func (p *process) signal(sig syscall.Signal) error {
	err := p.cmd.Process.Signal(sig)
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// stop asks with sig, waits for grace, then kills, and returns when the process is collected.
func (p *process) stop(sig syscall.Signal, grace time.Duration) error {
	if err := p.signal(sig); err != nil {
		return err
	}
	if sig != syscall.SIGKILL {
		// A frozen process does not see the signal until it runs again.
		if err := p.signal(syscall.SIGCONT); err != nil {
			return err
		}
		select {
		case <-p.done:
			return nil
		case <-time.After(grace):
		}
		if err := p.signal(syscall.SIGKILL); err != nil {
			return err
		}
	}
	<-p.done
	return nil
}

// exitReason says how the process ended, with the last line that it wrote.
func (p *process) exitReason(log string) string {
	reason := "exit status 0"
	if p.err != nil {
		reason = p.err.Error()
	}
	if line := lastLine(log); line != "" {
		reason += ": " + line
	}
	return reason
}

// lastLine returns the last line of a log, shortened; "" when it cannot be read.
func lastLine(path string) string {
	const tail, most = 4096, 300
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	offset := max(info.Size()-tail, 0)
	buf := make([]byte, info.Size()-offset)
	n, err := f.ReadAt(buf, offset)
	if n == 0 && err != nil {
		return ""
	}
	lines := bytes.Split(bytes.TrimSpace(buf[:n]), []byte("\n"))
	line := lines[len(lines)-1]
	if len(line) > most {
		line = fmt.Appendf(line[:most:most], "…")
	}
	return string(line)
}
