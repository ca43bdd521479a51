// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package embedded

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// TestMain plays the API server when a test starts this program in its place.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "standalone" {
		os.Exit(play(os.Args[2:]))
	}
	os.Exit(m.Run())
}

// play does what --cluster-name says, and tells the file beside it what happened.
func play(args []string) int {
	flags := map[string]string{}
	for _, arg := range args {
		name, value, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		flags[name] = value
	}
	note := func(line string) {
		f, err := os.OpenFile(filepath.Join(flags["data-dir"], "notes"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err == nil {
			_, err = fmt.Fprintln(f, line)
		}
		if err != nil {
			panic(err)
		}
	}
	switch flags["cluster-name"] {
	case "refuses":
		fmt.Fprintln(os.Stderr, "a line of the log")
		fmt.Fprintln(os.Stderr, Program+": --listen :6443: address already in use")
		return 1
	case "silent":
		return 3
	}
	note("started")
	fmt.Println("ready")
	switch flags["cluster-name"] {
	case "crashes":
		return 1
	case "talks": // more than a pipe holds
		for range 100 {
			fmt.Fprintln(os.Stderr, strings.Repeat("x", 4096))
		}
		note("talked")
	case "group":
		if syscall.Getpgrp() == os.Getpid() {
			note("leads")
		}
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	note("ended")
	return 0
}

func options(t *testing.T, name string) Options {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Options{
		Path: path, DataDir: t.TempDir(), ClusterName: name, Listen: ":6443", LogFormat: "text", LogLevel: "info",
		Log: slog.New(slog.DiscardHandler),
	}
}

// notes waits until the file has this many lines, and returns them.
func notes(t *testing.T, o Options, want int) []string {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		data, err := os.ReadFile(filepath.Join(o.DataDir, "notes"))
		if err != nil {
			t.Fatal(err)
		}
		if lines := strings.Fields(string(data)); len(lines) >= want {
			return lines
		}
		if time.Now().After(deadline) {
			t.Fatalf("after a minute the notes are %q", data)
		}
	}
}

// A server that serves is left alone until Stop, which ends it in order.
func TestStop(t *testing.T) {
	t.Parallel()
	o := options(t, "alpha")
	s, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	s.Stop()
	if got := strings.Join(notes(t, o, 2), " "); got != "started ended" {
		t.Errorf("the server %s", got)
	}
}

// The context of Start is that of the start alone.
func TestStartOutlivesItsContext(t *testing.T) {
	t.Parallel()
	o := options(t, "alpha")
	ctx, cancel := context.WithCancel(t.Context())
	s, err := Start(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	s.Stop()
	if got := strings.Join(notes(t, o, 2), " "); got != "started ended" {
		t.Errorf("the server %s", got)
	}
}

// A server that ends is started again.
func TestStartedAgain(t *testing.T) {
	t.Parallel()
	o := options(t, "crashes")
	s, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	notes(t, o, 3)
	s.Stop()
}

// A server that cannot start says why, with the names that its flags have here.
func TestRefusal(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	o := options(t, "refuses")
	o.Stderr = &log
	if _, err := Start(t.Context(), o); err == nil || err.Error() != "roster-apiserver: --local-listen :6443: address already in use" {
		t.Errorf("got %v", err)
	}
	if log.String() != "a line of the log\n" {
		t.Errorf("the log has %q", log.String())
	}
	if _, err := Start(t.Context(), options(t, "silent")); err == nil || err.Error() != "roster-apiserver: exit status 3" {
		t.Errorf("without a word: %v", err)
	}
	o.Path = filepath.Join(o.DataDir, Program)
	if _, err := Start(t.Context(), o); err == nil || !strings.Contains(err.Error(), o.Path) {
		t.Errorf("without a program: %v", err)
	}
}

// The words of a log that comes in pieces are put together again.
func TestLastWords(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	w := &lastWords{to: &log}
	for _, piece := range []string{"one\ntw", "o\nroster-api", "server: the ", "end\nth", "ree"} {
		if n, err := w.Write([]byte(piece)); n != len(piece) || err != nil {
			t.Fatal(n, err)
		}
	}
	w.flush()
	w.flush()
	if log.String() != "one\ntwo\nthree\n" || w.line != "the end" {
		t.Errorf("the log has %q, and the end is %q", log.String(), w.line)
	}
}

// A log that cannot be written is no reason for the server to end.
func TestLogIsFull(t *testing.T) {
	t.Parallel()
	o := options(t, "talks")
	o.Stderr = failing{}
	s, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	notes(t, o, 2)
	s.Stop()
	if got := strings.Join(notes(t, o, 3), " "); got != "started talked ended" {
		t.Errorf("the server %s", got)
	}
}

// The server is in a group of its own, which a ^C in a terminal does not reach.
func TestGroup(t *testing.T) {
	t.Parallel()
	o := options(t, "group")
	s, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	s.Stop()
	if got := strings.Join(notes(t, o, 3), " "); got != "started leads ended" {
		t.Errorf("the server %s", got)
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, net.ErrClosed }

// A server that was started again and does not serve is spoken of each minute; one that serves is not.
func TestSaysThatItDoesNotServe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		s := &Server{o: Options{Log: slog.New(slog.NewTextHandler(&log, nil))}}
		p := &process{began: time.Now(), ready: make(chan struct{}), done: make(chan struct{})}
		time.AfterFunc(3*steady-time.Second, func() { close(p.ready) })
		time.AfterFunc(10*steady, func() { close(p.done) })
		s.await(p)
		if n := strings.Count(log.String(), "does not serve yet"); n != 2 {
			t.Errorf("it says so %d times: %s", n, log.String())
		}
	})
}
