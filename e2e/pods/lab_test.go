// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/roster-mesh/roster/e2e/documents"
	"github.com/roster-mesh/roster/e2e/harness"
	"github.com/roster-mesh/roster/e2e/pods/node"
)

const (
	// within bounds what needs some requests, on a busy machine.
	within = time.Minute
	// afterFault bounds a repair: connections notice their end by timeouts, and kubelets back off.
	afterFault = 3 * time.Minute
)

// shared are the clusters that the tests share, made by the first that asks.
var shared sharedLab

type sharedLab struct {
	isolated bool
	ctx      context.Context //nolint:containedctx // It stands for the life of the process.
	start    sync.Once
	join     sync.Once
	lab      *lab
	site     *node.Site
	err      error
}

// lab is three clusters with nodes.
type lab struct {
	*harness.Fleet

	site *node.Site
	bin  harness.Binaries
	docs *documents.Reader // of all tests
	env  []string          // of a user who follows the documentation
}

// member is one cluster and its node.
type member struct {
	*harness.Cluster

	node *node.Node
	lab  *lab
}

func (l *lab) member(i int) *member {
	return &member{Cluster: l.Clusters[i], node: l.site.Nodes[i], lab: l}
}

func (l *lab) members() []*member {
	return []*member{l.member(0), l.member(1), l.member(2)}
}

func (s *sharedLab) close(ok bool) error {
	switch {
	case s.site == nil:
		return nil
	case ok:
		return s.site.Close()
	}
	fmt.Fprintln(os.Stderr, "pods: logs and data stay in", s.site.Dir)
	return s.site.CloseAndKeep()
}

// clusters returns three clusters, perhaps with nothing in them yet.
func clusters(t *testing.T) *lab {
	t.Helper()
	if !shared.isolated {
		t.Skip("Kubernetes nodes take root")
	}
	shared.start.Do(func() { shared.err = shared.up() })
	if errors.Is(shared.err, node.ErrUnfit) {
		t.Skip(shared.err)
	}
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			shared.lab.explain(t)
		}
	})
	return shared.lab
}

// explain shows what a failed test left.
func (l *lab) explain(t *testing.T) {
	t.Helper()
	for _, m := range l.members() {
		for _, args := range []string{
			"get pods -A -o wide", "get clusters -o wide", "get resourcesyncrules -o wide",
			"-n " + harness.Namespace + " logs -l app.kubernetes.io/component=agent --tail=15",
			"get apiservices v1alpha1.clusterregistry.k8s.io -o wide", "-n " + harness.Namespace + " logs -l " + registryPods + " --tail=15",
			"-n " + harness.Namespace + " logs -l app.kubernetes.io/component=ui --tail=15",
		} {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(shared.ctx), 10*time.Second)
			out, err := m.Kubectl(ctx, strings.Fields(args)...)
			cancel()
			t.Logf("%s: kubectl %s: %v\n%s", m.Name, args, err, out)
		}
	}
}

func (s *sharedLab) up() error {
	bin, err := harness.FindBinaries()
	if err != nil {
		return err
	}
	if err = node.Check(node.Programs(bin.Root)); err != nil {
		return err
	}
	began := time.Now()
	s.site, err = node.Up(s.ctx, node.Options{
		Bins: node.Programs(bin.Root), Names: []string{"cluster-1", "cluster-2", "cluster-3"}, Log: progress,
	})
	if err != nil {
		return err
	}
	progress("three clusters ready after %.1f s", time.Since(began).Seconds())
	running := make([]harness.Running, 0, len(s.site.Nodes))
	for _, n := range s.site.Nodes {
		running = append(running, harness.Running{Name: n.Name, Kubeconfig: n.Kubeconfig()})
	}
	fleet, err := harness.Adopt(bin, s.site.Dir, running)
	if err != nil {
		return err
	}
	s.lab = &lab{Fleet: fleet, site: s.site, bin: bin, docs: documents.NewReader(bin.Root)}
	return s.lab.prepare(s.ctx)
}

// progress prints what a person at the terminal and the reader of a CI log want to see, also of tests that pass.
func progress(format string, args ...any) { fmt.Printf("pods: "+format+"\n", args...) }

// repository is the image's name in full, as the chart means it when it says less.
const repository = "docker.io/roster-mesh/agent"

// version is that of the chart, which is the tag of the image that it asks for.
func (l *lab) version() (string, error) {
	data, err := os.ReadFile(filepath.Join(l.bin.Chart, "Chart.yaml"))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(data)) {
		if version, found := strings.CutPrefix(line, "appVersion:"); found {
			return strings.Trim(strings.TrimSpace(version), `"`), nil
		}
	}
	return "", errors.New("Chart.yaml has no appVersion")
}

// prepare gives each node the agent's image, and makes a user's environment.
func (l *lab) prepare(ctx context.Context) error {
	version, err := l.version()
	if err != nil {
		return err
	}
	line, err := l.docs.With("VERSION", version).Lines(documents.Release, "ctr -n k8s.io")
	if err != nil {
		return err
	}
	for _, n := range l.site.Nodes {
		if err := n.Shell(ctx, filepath.Join(l.bin.Root, "dist"), line); err != nil { // of what `make image` wrote
			return err
		}
	}
	shims := filepath.Join(l.site.Dir, "shims")
	if err := os.MkdirAll(shims, 0o755); err != nil {
		return err
	}
	for i := range l.site.Nodes {
		if err := os.WriteFile(l.valuesPath(i), []byte(l.values()), 0o644); err != nil {
			return err
		}
	}
	shim := fmt.Sprintf(helmShim, l.bin.Helm)
	if err := os.WriteFile(filepath.Join(shims, "helm"), []byte(shim), 0o755); err != nil { //nolint:gosec // It is a program.
		return err
	}
	path := []string{shims, filepath.Dir(l.bin.Kubectl), filepath.Dir(l.bin.Agentctl), os.Getenv("PATH")}
	for _, kv := range l.Environ() {
		if !strings.HasPrefix(kv, "PATH=") {
			l.env = append(l.env, kv)
		}
	}
	l.env = append(l.env, "PATH="+strings.Join(path, ":"))
	return nil
}

// helmShim adds what the documentation leaves to the reader, since it is different in every place: how other clusters
// reach this one.
const helmShim = `#!/bin/sh
case "$1" in
install | upgrade) exec %[1]s "$@" --values "$PLACE" ;;
*) exec %[1]s "$@" ;;
esac
`

func (l *lab) valuesPath(i int) string {
	return filepath.Join(l.site.Dir, l.site.Nodes[i].Name, "place.yaml")
}

const meshNodePort = 30946

// values has no address for the mesh: the agent finds it, from the Service and the node.
func (l *lab) values() string {
	return fmt.Sprintf("mesh: {service: {type: NodePort, nodePort: %d}}\n", meshNodePort)
}

// load writes an image of the agent under a tag and gives it to every node.
func (l *lab) load(ctx context.Context, tag, agent string) error {
	path := filepath.Join(l.site.Dir, "agent-"+tag+".tar")
	if err := node.WriteImage(path, repository+":"+tag, agent); err != nil {
		return err
	}
	for _, n := range l.site.Nodes {
		if err := n.Import(ctx, path); err != nil {
			return err
		}
	}
	return nil
}

// sh runs a block of the documentation in the checkout, with the kubeconfig of all clusters, or for a member one
// with that alone.
func (l *lab) sh(ctx context.Context, m *member, block string) (string, error) {
	cmd := exec.CommandContext(ctx, "sh", "-euc", block)
	cmd.Dir, cmd.Env, cmd.WaitDelay = l.bin.Root, l.env, time.Second
	if m != nil {
		cmd.Env = append(slices.Clip(cmd.Env), "KUBECONFIG="+m.node.Kubeconfig(), "PLACE="+l.valuesPath(m.Index-1))
	}
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%s: %w: %s%s", strings.TrimSpace(block), err, stderr.String(), stdout.String())
	}
	return stdout.String(), nil
}

// eventually waits for a condition, and says how long it took.
func eventually(t *testing.T, what string, limit time.Duration, cond func(context.Context) error) time.Duration {
	t.Helper()
	took, err := harness.Wait(shared.ctx, what, limit, cond)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%7.3f s  %s", took.Seconds(), what)
	return took
}

// must ends the test with the first error.
func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}
