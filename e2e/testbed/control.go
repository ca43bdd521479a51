// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"
)

// request is one line of JSON on the control socket; a response answers it and ends the connection.
type request struct {
	Op        string `json:"op"` // stop, start or status
	Component string `json:"component,omitempty"`
	Signal    string `json:"signal,omitempty"`
}

type response struct {
	Error   string `json:"error,omitempty"`
	Message string `json:"message,omitempty"`
}

// controlTimeout bounds one call: a start may wait for two components.
const controlTimeout = 5 * time.Minute

// socketPath returns a path to DIR/testbed.sock that is short however long DIR is: the address of a
// unix socket holds 107 bytes. It leads through a descriptor of DIR and is valid until it is closed.
func socketPath(dir string) (path string, opened *os.File, err error) {
	opened, err = os.Open(dir)
	if err != nil {
		return "", nil, err
	}
	return fmt.Sprintf("/proc/self/fd/%d/testbed.sock", opened.Fd()), opened, nil
}

// serve answers on the control socket. The caller holds the directory's lock, so a socket that is
// there belongs to a testbed that was killed.
func (t *Testbed) serve(ctx context.Context) (stop func(), err error) {
	path, dir, err := socketPath(t.dir)
	if err != nil {
		return nil, err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(err, dir.Close())
	}
	var config net.ListenConfig
	l, err := config.Listen(ctx, "unix", path)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen for commands in %s: %w", t.dir, err), dir.Close())
	}
	var group sync.WaitGroup
	group.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return // Closed by stop.
			}
			group.Go(func() { t.answer(ctx, conn) })
		}
	})
	return func() {
		l.Close() //nolint:errcheck // The program ends; a socket that stays behind is removed by the next.
		group.Wait()
		dir.Close() //nolint:errcheck // Opened for its path alone.
	}, nil
}

func (t *Testbed) answer(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	deadline := time.Now().Add(controlTimeout)
	if conn.SetDeadline(deadline) != nil {
		return
	}
	// A client that says nothing must not keep the program from ending.
	defer context.AfterFunc(ctx, func() {
		conn.SetReadDeadline(time.Now()) //nolint:errcheck // It fails only on a closed connection.
	})()
	var req request
	if json.NewDecoder(conn).Decode(&req) != nil {
		return
	}
	var res response
	message, err := t.handle(ctx, req)
	if err != nil {
		res.Error = err.Error()
	}
	res.Message = message
	if err := json.NewEncoder(conn).Encode(res); err != nil {
		t.print("answer a command: " + err.Error())
	}
}

func (t *Testbed) handle(ctx context.Context, req request) (string, error) {
	if req.Op == "status" {
		return t.status(), nil
	}
	p, index, err := t.find(req.Component)
	if err != nil {
		return "", err
	}
	began := time.Now()
	switch req.Op {
	case "start":
		if err := p.start(ctx, t.spawner, index); err != nil {
			return "", err
		}
		return fmt.Sprintf("%s serves after %.1f s\n", req.Component, time.Since(began).Seconds()), nil
	case "stop":
		sig, err := parseSignal(req.Signal)
		if err != nil {
			return "", err
		}
		if err := p.stop(index, sig); err != nil {
			return "", err
		}
		return fmt.Sprintf("%s is %s\n", req.Component, p.components[index].state()), nil
	default:
		return "", fmt.Errorf("unknown command %q", req.Op)
	}
}

func parseSignal(name string) (syscall.Signal, error) {
	switch name {
	case "KILL":
		return syscall.SIGKILL, nil
	case "TERM":
		return syscall.SIGTERM, nil
	case "STOP":
		return syscall.SIGSTOP, nil
	default:
		return 0, fmt.Errorf("--signal must be KILL, TERM or STOP, not %q", name)
	}
}

func (t *Testbed) status() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "COMPONENT\tSTATE\tPID\tLOG")
	for c := range t.components {
		pid := "-"
		if p := c.proc.Load(); p != nil {
			pid = fmt.Sprint(p.pid())
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", c.name, c.state(), pid, c.log)
	}
	w.Flush() //nolint:errcheck // Writing to a strings.Builder cannot go wrong.
	return b.String()
}

// call sends a request to the testbed that runs in dir.
func call(ctx context.Context, dir string, req request) (string, error) {
	none := fmt.Errorf("no testbed runs in %s: start one with `testbed up --dir %s`", dir, dir)
	path, opened, err := socketPath(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return "", none
	}
	if err != nil {
		return "", err
	}
	defer opened.Close()
	ctx, cancel := context.WithTimeout(ctx, controlTimeout)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return "", none
	}
	if err != nil {
		return "", fmt.Errorf("reach the testbed in %s: %w", dir, err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if err := json.NewEncoder(conn).Encode(req); err != nil {
		return "", fmt.Errorf("send the command: %w", err)
	}
	var res response
	if err := json.NewDecoder(conn).Decode(&res); err != nil {
		return "", fmt.Errorf("the testbed in %s went away: %w", dir, err)
	}
	if res.Error != "" {
		return "", errors.New(res.Error)
	}
	return res.Message, nil
}
