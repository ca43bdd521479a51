// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/roster-mesh/roster/e2e/harness"
)

// within is how long any one thing may take on a busy machine before the demo says that it did not happen.
const within = 30 * time.Second

// width is how long a line of a command may be.
const width = 100

// quiet is how long the demo looks whether something stays as it is.
// What it would see takes a hundredth of a second or so.
const quiet = 300 * time.Millisecond

// story is the demo: a fleet and what is told about it.
type story struct {
	*printer

	bin        harness.Binaries
	kubernetes bool // whether the clusters are Kubernetes control planes
	dir        string
	names      []string
	fleet      *harness.Fleet

	first, second, third *harness.Cluster
}

// play tells the steps in order, and unless once stays up until ctx ends.
func (s *story) play(ctx context.Context, once bool) (err error) {
	began := time.Now()
	kind, opening := "clusters without Kubernetes", []func(context.Context) error{s.standalone}
	if s.kubernetes {
		kind, opening = "Kubernetes clusters", []func(context.Context) error{s.controlPlanes, s.install}
	}
	s.printf("Roster demo: one group of %d %s on this machine. Everything lies in %s.\n", len(s.names), kind, s.dir)
	defer func() {
		if s.fleet == nil {
			return
		}
		if err != nil && ctx.Err() == nil {
			s.printLogs()
		}
		if e := s.fleet.Close(); e != nil {
			err = errors.Join(err, fmt.Errorf("stop: %w", e))
		}
	}()
	steps := append(opening, s.join, s.attach, s.everywhere, s.kept, s.toSome, s.fromSome, s.crash, s.sourceDeleted, s.result)
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return fmt.Errorf("step %d: %w", s.steps, err)
		}
	}
	s.printf("\nEvery step was observed. It took %s, the start of the clusters included.\n", human(time.Since(began)))
	if once {
		return nil
	}
	s.invite()
	<-ctx.Done()
	s.printf("\nStopping.\n")
	return nil
}

// kubectl runs kubectl and shows both sides of it.
func (s *story) kubectl(ctx context.Context, c *harness.Cluster, args ...string) error {
	s.command(shell("kubectl", append([]string{"--context", c.Name}, args...)), "")
	out, err := c.Kubectl(ctx, args...)
	s.output(out)
	return err
}

func (s *story) apply(ctx context.Context, c *harness.Cluster, manifest string, flags ...string) error {
	args := append([]string{"--context", c.Name, "apply", "-f", "-"}, flags...)
	s.command(shell("kubectl", args), manifest)
	out, err := c.Apply(ctx, manifest, flags...)
	s.output(out)
	return err
}

func (s *story) agentctl(ctx context.Context, args ...string) error {
	s.command(shell("agentctl", args), "")
	out, err := s.fleet.Agentctl(ctx, args...)
	s.output(out)
	return err
}

// shell prints a command line so that it can be pasted.
func shell(program string, args []string) string {
	words := []string{program}
	for _, a := range args {
		if strings.ContainsAny(a, " \"'{}[]$&|;<>*?") {
			a = "'" + a + "'"
		}
		words = append(words, a)
	}
	return strings.Join(words, " ")
}

func (s *story) printLogs() {
	for _, c := range s.fleet.Clusters {
		s.printf("\nLast lines of agent %s (%s):\n", c.Name, c.LogPath())
		s.output(c.LogTail(12))
	}
}

// setPath is a command that makes programs known by the names that the demo uses.
func (s *story) setPath() string {
	path := []string{filepath.Join(s.bin.Root, "bin")}
	if dir := filepath.Dir(s.bin.Kubectl); strings.HasPrefix(dir, s.bin.Root+"/") {
		path = append(path, dir)
	}
	return shell("export", []string{"PATH=" + strings.Join(path, ":")}) + ":$PATH"
}

func (s *story) setKubeconfig() string {
	return shell("export", []string{"KUBECONFIG=" + s.fleet.Kubeconfig})
}

// invite says how to go on.
func (s *story) invite() {
	s.printf("\nThe clusters stay up. In another terminal:\n\n")
	s.printf("   %s\n   %s\n\n", s.setPath(), s.setKubeconfig())
	s.printf("   kubectl --context %s get clusters -o wide      # contexts: %s\n", s.first.Name, strings.Join(s.names, ", "))
	s.printf("   agentctl --context %s members\n", s.second.Name)
	s.printf("   kubectl --context %s -n %s create secret generic test-secret --from-literal=colour=green\n", s.third.Name, harness.Namespace)
	s.printf("   kubectl --context %s -n %s get secret test-secret -o yaml      # the copy\n", s.first.Name, harness.Namespace)
	for _, c := range s.fleet.Clusters[:3] {
		s.printf("   tail -f %s   # metrics: http://127.0.0.1:%d/metrics\n", c.LogPath(), c.HTTPPort)
	}
	s.printf("\nPress ctrl-C to end it all.\n")
}
