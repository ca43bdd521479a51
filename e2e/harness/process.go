// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// Process is a child that ends with us.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // of Wait; read after done is closed
}

// StartProcess starts cmd on a thread of its own: the kernel sends the parent-death signal when the thread
// that forked ends, and Go ends threads as it likes. Its group is one of its own, so that a ^C in the terminal is for
// us; we end children in order.
func StartProcess(cmd *exec.Cmd) (*Process, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	cmd.SysProcAttr.Setpgid = !cmd.SysProcAttr.Setsid // a session comes with a group
	p := &Process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(p.done)
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return p, nil
}

// PID is the number of the process, also when it has ended.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Ended says whether it has.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Code is the exit code; -1 while the process runs, and when a signal ended it.
func (p *Process) Code() int {
	if !p.Ended() {
		return -1
	}
	return p.cmd.ProcessState.ExitCode()
}

// Signal sends sig and waits for the end; after grace it kills. A process that ended before is no error.
func (p *Process) Signal(sig os.Signal, grace time.Duration) error {
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
	}
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.done
	return fmt.Errorf("%s did not end within %s after %v and was killed", p.cmd.Path, grace, sig)
}

// run runs a short command and returns its standard output. The error carries the last line of standard
// error, which is where command-line tools explain themselves.
func run(ctx context.Context, cmd *exec.Cmd) (string, error) {
	var stdout, stderr tail
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	if ctx.Err() != nil {
		err = errors.Join(ctx.Err(), err)
	}
	if err != nil {
		return stdout.String(), &CommandError{Args: cmd.Args, Stdout: stdout.String(), Stderr: stderr.String(), Err: err}
	}
	return stdout.String(), nil
}

// CommandError is returned when a command that the harness ran ended with another status than 0.
type CommandError struct {
	Args           []string
	Stdout, Stderr string
	Err            error
}

func (e *CommandError) Error() string {
	text := e.Stderr
	if text == "" {
		text = e.Stdout
	}
	return fmt.Sprintf("%v: %v: %s", e.Args, e.Err, text)
}

func (e *CommandError) Unwrap() error { return e.Err }

// ExitCode is the command's exit status, or -1 when it did not exit by itself.
func (e *CommandError) ExitCode() int {
	if exit, ok := errors.AsType[*exec.ExitError](e.Err); ok {
		return exit.ExitCode()
	}
	return -1
}

// tail keeps what a command prints, up to a size that no command here needs.
type tail struct{ data []byte }

const tailSize = 4 << 20

func (t *tail) Write(p []byte) (int, error) {
	t.data = append(t.data, p...)
	if over := len(t.data) - tailSize; over > 0 {
		t.data = t.data[over:]
	}
	return len(p), nil
}

func (t *tail) String() string { return string(t.data) }
