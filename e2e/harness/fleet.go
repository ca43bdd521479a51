// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Options say what Up starts.
type Options struct {
	Binaries Binaries
	// Dir is a new or empty folder for everything. Other users must be able to enter it when Isolate is set.
	Dir string
	// Names are those of the clusters.
	Names []string
	// Embedded makes each agent run the API server of its cluster (--local embedded), and starts the agents. Without it
	// the control planes are those of the testbed.
	Embedded bool
	// Isolate runs each agent as a user of its own and marks its connections, so that Cut works. It needs
	// root and InNetworkNamespace, and is not for embedded clusters.
	Isolate bool
	// Fsync has etcd wait for the disk, as it does everywhere else.
	Fsync bool
	// ServersOnly has Up return when the API servers serve. Their controllers are started and not waited for.
	ServersOnly bool
	// Log receives progress lines; nil drops them.
	Log func(format string, args ...any)
}

// Fleet is a set of clusters on this machine, each with room for an agent.
type Fleet struct {
	Dir      string
	Clusters []*Cluster
	// Kubeconfig is one file with admin access to every cluster; its contexts are the clusters' names.
	Kubeconfig string

	bin      Binaries
	agent    string // path of the program
	embedded bool
	testbed  *Process // nil for embedded clusters
	cuts     *cuts    // nil without Isolate
	log      func(string, ...any)
}

const (
	readyWithin = 3 * time.Minute
	stopWithin  = 30 * time.Second

	// startsAtOnce bounds how many agents with an API server start at a time.
	startsAtOnce = 4
)

// Up starts the control planes and returns when they serve. Nothing is installed in them yet; but agents of embedded
// clusters are ready, and Install and StartAgent are not for these.
func Up(ctx context.Context, o Options) (*Fleet, error) {
	if o.Log == nil {
		o.Log = func(string, ...any) {}
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	f := &Fleet{Dir: dir, bin: o.Binaries, embedded: o.Embedded, log: o.Log, Kubeconfig: filepath.Join(dir, "kubeconfig")}
	if err := f.start(ctx, o); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (f *Fleet) start(ctx context.Context, o Options) error {
	start := f.startTestbed
	if o.Embedded {
		start = f.startEmbedded
	}
	if err := start(ctx, o); err != nil {
		return err
	}
	if err := f.connect(); err != nil {
		return err
	}
	if !o.Isolate {
		return nil
	}
	var err error
	f.cuts, err = newCuts(ctx, f.Clusters)
	return err
}

// startTestbed chooses the ports of agents when the control planes have theirs.
func (f *Fleet) startTestbed(ctx context.Context, o Options) error {
	if err := f.runTestbed(ctx, o); err != nil {
		return err
	}
	if err := f.addClusters(ctx, o.Names); err != nil {
		return err
	}
	// A copy, because an agent with a user of its own may not be able to enter the checkout.
	f.agent = filepath.Join(f.Dir, "agent")
	return copyFile(f.agent, f.bin.Agent)
}

// startEmbedded starts the agents, some at a time: a new API server is busy with itself for its first seconds.
func (f *Fleet) startEmbedded(ctx context.Context, o Options) error {
	if err := f.addClusters(ctx, o.Names); err != nil {
		return err
	}
	f.agent = f.bin.Agent // its API server lies beside it
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(startsAtOnce)
	for _, c := range f.Clusters {
		group.Go(func() error { return c.StartAgent(ctx) })
	}
	return group.Wait()
}

func (f *Fleet) testbedDir() string { return filepath.Join(f.Dir, "testbed") }

func (f *Fleet) runTestbed(ctx context.Context, o Options) error {
	//nolint:noctx // It outlives ctx, which bounds only the start, and is ended by Close.
	cmd := exec.Command(f.bin.Testbed, "up", "--wait="+strconv.FormatBool(!o.ServersOnly), "--fsync="+strconv.FormatBool(o.Fsync),
		"--clusters", strconv.Itoa(len(o.Names)), "--dir", f.testbedDir(), "--bin", filepath.Dir(f.bin.Kubectl), "--kubernetes", f.bin.Kubernetes)
	var stderr tail
	cmd.Stderr = &stderr
	stdout, writer, err := os.Pipe()
	if err != nil {
		return err
	}
	cmd.Stdout = writer
	p, err := StartProcess(cmd)
	writer.Close() //nolint:errcheck // The child has its own.
	if err != nil {
		return errors.Join(err, stdout.Close())
	}
	f.testbed = p
	ready := make(chan struct{})
	go f.followTestbed(stdout, ready)
	timer := time.NewTimer(readyWithin)
	defer timer.Stop()
	select {
	case <-ready:
		return nil
	case <-p.done:
		return fmt.Errorf("testbed up: %w: %s", p.err, stderr.String())
	case <-timer.C:
		return fmt.Errorf("testbed up: not ready within %s", readyWithin)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// followTestbed reads the testbed's progress until it ends, so that it never blocks on a full pipe.
func (f *Fleet) followTestbed(stdout io.ReadCloser, ready chan<- struct{}) {
	defer stdout.Close()
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		if line := lines.Text(); line == "ready" {
			close(ready)
		} else {
			f.log("testbed: %s", line)
		}
	}
}

// addClusters makes the Cluster values, each agent's folder among them.
func (f *Fleet) addClusters(ctx context.Context, names []string) error {
	for i, name := range names {
		c, err := newCluster(ctx, f, name, i+1)
		if err != nil {
			return err
		}
		f.Clusters = append(f.Clusters, c)
	}
	return nil
}

// connect makes the common kubeconfig, and clients for each cluster.
func (f *Fleet) connect() error {
	all := clientcmdapi.NewConfig()
	for _, c := range f.Clusters {
		admin, err := clientcmd.LoadFromFile(c.admin)
		if err != nil {
			return fmt.Errorf("kubeconfig of %s: %w", c.Name, err)
		}
		if err := addContext(all, admin, c.Name); err != nil {
			return err
		}
	}
	if err := clientcmd.WriteToFile(*all, f.Kubeconfig); err != nil {
		return fmt.Errorf("write the common kubeconfig: %w", err)
	}
	for _, c := range f.Clusters {
		if err := c.connect(); err != nil {
			return err
		}
	}
	return nil
}

// addContext adds the current context of one kubeconfig to another, under a name.
func addContext(to, from *clientcmdapi.Config, name string) error {
	current, found := from.Contexts[from.CurrentContext]
	if !found || from.Clusters[current.Cluster] == nil || from.AuthInfos[current.AuthInfo] == nil {
		return errors.New("a kubeconfig has no usable current context")
	}
	to.Clusters[name] = from.Clusters[current.Cluster]
	to.AuthInfos[name] = from.AuthInfos[current.AuthInfo]
	to.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	if to.CurrentContext == "" {
		to.CurrentContext = name
	}
	return nil
}

// Close stops the agents, then the control planes.
func (f *Fleet) Close() error {
	errs := make([]error, len(f.Clusters))
	var agents sync.WaitGroup
	for i, c := range f.Clusters {
		agents.Go(func() { errs[i] = c.StopAgent() })
	}
	agents.Wait()
	if f.cuts != nil {
		errs = append(errs, f.cuts.close())
	}
	if f.testbed != nil && !f.testbed.Ended() {
		errs = append(errs, f.testbed.Signal(syscall.SIGTERM, stopWithin))
	}
	return errors.Join(errs...)
}

// Find returns the cluster of that name, or nil.
func (f *Fleet) Find(name string) *Cluster {
	for _, c := range f.Clusters {
		if c.Name == name {
			return c
		}
	}
	return nil
}

// Agentctl runs agentctl with access to every cluster of the fleet.
func (f *Fleet) Agentctl(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, f.bin.Agentctl, args...)
	cmd.Env = f.environ()
	return run(ctx, cmd)
}

// environ gives a tool the fleet's kubeconfig, a home that is thrown away, and a PATH with kubectl and agentctl.
func (f *Fleet) environ() []string {
	env := []string{"KUBECONFIG=" + f.Kubeconfig, "HOME=" + f.Dir, "KUBECACHEDIR=" + filepath.Join(f.Dir, "kubectl-cache")}
	for _, kv := range os.Environ() {
		switch name, _, _ := strings.Cut(kv, "="); name {
		case "KUBECONFIG", "HOME", "KUBECACHEDIR":
		case "PATH":
			env = append(env, fmt.Sprintf("PATH=%s:%s:%s", filepath.Dir(f.bin.Kubectl), filepath.Dir(f.bin.Agentctl), kv[len("PATH="):]))
		default:
			env = append(env, kv)
		}
	}
	return env
}

func copyFile(to, from string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o755) //nolint:gosec // It is a program.
}
