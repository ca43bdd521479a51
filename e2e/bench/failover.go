// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/roster-mesh/roster/e2e/harness"
)

const (
	// everySoOften is how often a write begins while a leader is killed, whatever became of those before.
	everySoOften = 50 * time.Millisecond
	// before and after are how many writes begin before the leader is killed, and how many that begin afterwards are
	// acknowledged until it is over. That is 2 s each, when nobody waits.
	beforeKill = 40
	afterKill  = 40
)

// failover is how long a write waits whose client uses the servers that are left when one of three is killed: the one that
// leads, round by round.
func (c *comparison) failover(ctx context.Context) (err error) {
	s := &threeServers{program: filepath.Join(c.bin.Root, "bin", "roster-apiserver")}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.start(ctx, filepath.Join(c.dir, "three")); err != nil {
		return err
	}
	var longest []time.Duration // of each round
	for round := range c.s.servers.failovers {
		wait, err := s.failover(ctx, round)
		if err != nil {
			return err
		}
		longest = append(longest, wait)
	}
	c.r.add(1, "failover: the longest that a write waits", slices.Max(longest).Seconds(), "s", atMost(3),
		fmt.Sprintf("of three servers the leader is killed; worst of %d rounds, their median %.2f s", len(longest), percentile(longest, 50).Seconds()))
	return nil
}

// threeServers are of one cluster.
type threeServers struct {
	program string
	all     [3]*oneServer
}

// oneServer is one of several, in one of its lives.
type oneServer struct {
	*harness.Process

	dir     string
	secrets typedcorev1.SecretInterface // on a connection of its own
}

func (s *threeServers) close() error {
	var errs []error
	for _, one := range s.all {
		if one != nil {
			errs = append(errs, one.Signal(syscall.SIGKILL, within))
		}
	}
	return errors.Join(errs...)
}

// start starts the first server, and adds the others.
func (s *threeServers) start(ctx context.Context, dir string) error {
	for i := range s.all {
		peer, err := harness.FreeAddress(ctx)
		if err != nil {
			return err
		}
		own, flags := filepath.Join(dir, fmt.Sprint(i)), []string{"--peer-listen", peer}
		if i > 0 {
			file := filepath.Join(dir, fmt.Sprint(i, ".bundle"))
			said, err := exec.CommandContext(ctx, s.program, "add", "--data-dir", s.all[0].dir, "--peer", peer, file).CombinedOutput()
			if err != nil {
				return fmt.Errorf("add a server: %w: %s", err, said)
			}
			flags = []string{"--bundle", file}
		}
		if s.all[i], err = s.startOne(ctx, own, flags...); err != nil {
			return err
		}
	}
	return nil
}

// startOne returns when the server is ready.
func (s *threeServers) startOne(ctx context.Context, dir string, flags ...string) (*oneServer, error) {
	//nolint:noctx // It is ended by close.
	cmd := exec.Command(s.program, append([]string{"standalone", "--data-dir", dir, "--listen", "127.0.0.1:0"}, flags...)...)
	stdout, writer, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer stdout.Close()
	cmd.Stdout = writer
	one := &oneServer{dir: dir}
	one.Process, err = harness.StartProcess(cmd)
	_ = writer.Close()
	if err != nil {
		return nil, err
	}
	if err := awaitReady(ctx, stdout); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", dir, err), one.Signal(syscall.SIGKILL, within))
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", filepath.Join(dir, "admin.kubeconfig"))
	if err != nil {
		return nil, err
	}
	cfg.QPS, cfg.ContentType = -1, runtime.ContentTypeProtobuf
	client, err := kubernetes.NewForConfig(cfg)
	if err == nil {
		one.secrets = client.CoreV1().Secrets(metav1.NamespaceDefault)
	}
	return one, err
}

// awaitReady reads what a server says on its standard output.
func awaitReady(ctx context.Context, stdout io.Reader) error {
	ready := make(chan error, 1)
	go func() {
		line, err := bufio.NewReader(stdout).ReadString('\n')
		if err == nil && strings.TrimSpace(line) != "ready" {
			err = fmt.Errorf("it said %q", line)
		}
		ready <- err
	}()
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case err := <-ready:
		return err
	case <-timer.C:
		return fmt.Errorf("not ready within %s", within)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// leader returns the index of the server that leads.
func (s *threeServers) leader(ctx context.Context) (leader int, err error) {
	_, err = harness.Wait(ctx, "a server that leads", within, func(ctx context.Context) error {
		for i, one := range s.all {
			leads, err := harness.Leads(ctx, one.dir)
			if err != nil {
				return err
			}
			if leads {
				leader = i
				return nil
			}
		}
		return errors.New("none leads")
	})
	return leader, err
}

// failover kills the server that leads and starts it again, and returns the longest that a write waited.
func (s *threeServers) failover(ctx context.Context, round int) (time.Duration, error) {
	leader, err := s.leader(ctx)
	if err != nil {
		return 0, err
	}
	left := slices.Delete(slices.Clone(s.all[:]), leader, leader+1)
	w := &steadyWriter{left: left, round: round}
	err = w.run(ctx, func() error { return s.all[leader].Signal(syscall.SIGKILL, within) })
	if err != nil {
		return 0, err
	}
	if s.all[leader], err = s.startOne(ctx, s.all[leader].dir); err != nil {
		return 0, err
	}
	return w.longest, pause(ctx, time.Second)
}

// steadyWriter begins a write every so often, whether or not those before have been answered.
type steadyWriter struct {
	left  []*oneServer // that are written to in turn
	round int

	mu      sync.Mutex
	longest time.Duration // from the beginning of a write until it was acknowledged
	acked   int           // of those that began after the kill
	err     error
}

// run returns when all writes have been acknowledged. kill is called on the way.
func (w *steadyWriter) run(ctx context.Context, kill func() error) error {
	tick := time.NewTicker(everySoOften)
	defer tick.Stop()
	var all sync.WaitGroup
	defer all.Wait()
	killed := make(chan error, 1)
	for i := 0; !w.done(); i++ {
		if i == beforeKill {
			go func() { killed <- kill() }()
		}
		all.Go(func() { w.write(ctx, i) })
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	all.Wait()
	return errors.Join(<-killed, w.err)
}

func (w *steadyWriter) done() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.acked >= afterKill || w.err != nil
}

// write creates a Secret. One that fails is tried again at the other server; the wait goes on meanwhile.
func (w *steadyWriter) write(ctx context.Context, i int) {
	began := time.Now()
	object := secret(wayLoad, fmt.Sprintf("failover-%d-%d", w.round, i), "failover")
	var err error
	for try := 0; ; try++ {
		_, err = w.left[(i+try)%len(w.left)].secrets.Create(ctx, object, metav1.CreateOptions{})
		if err == nil || apierrors.IsAlreadyExists(err) { // the answer was lost, and the write was not
			err = nil
			break
		}
		if time.Since(began) > within || pause(ctx, everySoOften) != nil {
			break
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.longest = max(w.longest, time.Since(began))
	if i >= beforeKill {
		w.acked++
	}
	if err != nil {
		w.err = errors.Join(w.err, fmt.Errorf("%s: %w", object.Name, err))
	}
}
