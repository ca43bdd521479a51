// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Namespace is where the chart is installed in every cluster.
const Namespace = "cluster-registry"

// firstUser is the user of the first agent of an isolated fleet.
const firstUser = 20001

// Cluster is one control plane and its agent. Of an embedded one, the API server starts and ends with the agent, and
// nothing else can stop it.
type Cluster struct {
	Name  string
	Index int // from 1, as in the testbed's component names

	// Admin access, for the test's own eyes and hands.
	Config  *rest.Config
	Kube    kubernetes.Interface
	Dynamic dynamic.Interface

	// APIPort, MeshPort and HTTPPort are on 127.0.0.1 and never change.
	APIPort, MeshPort, HTTPPort int

	fleet *Fleet
	dir   string
	admin string // path of a kubeconfig whose current context has admin access
	uid   int    // of the agent's process

	program, chart string // see Runs; "" is what the fleet has

	mu    sync.Mutex
	agent *Process // nil when not started or stopped
	id    string
	// siblingPorts are the ports of its agents, mesh and HTTP, where it has several.
	siblingPorts [][2]int
}

func newCluster(ctx context.Context, f *Fleet, name string, index int) (*Cluster, error) {
	c := &Cluster{Name: name, Index: index, fleet: f, dir: filepath.Join(f.Dir, "agents", name), uid: os.Getuid()}
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return nil, err
	}
	c.admin = filepath.Join(f.testbedDir(), fmt.Sprintf("cluster-%d.kubeconfig", index))
	if f.embedded {
		c.admin = filepath.Join(c.dataDir(), "apiserver", "admin.kubeconfig")
	}
	// The control planes of a testbed have a port already, which connect reads.
	for _, port := range []*int{&c.APIPort, &c.MeshPort, &c.HTTPPort} {
		var err error
		if *port, err = choosePort(ctx); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *Cluster) connect() error {
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: c.fleet.Kubeconfig},
		&clientcmd.ConfigOverrides{CurrentContext: c.Name}).ClientConfig()
	if err != nil {
		return fmt.Errorf("cluster %s: %w", c.Name, err)
	}
	config.QPS = -1
	c.Config = config
	if c.Kube, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	if c.Dynamic, err = dynamic.NewForConfig(config); err != nil {
		return err
	}
	server, err := url.Parse(config.Host)
	if err != nil {
		return fmt.Errorf("cluster %s: %w", c.Name, err)
	}
	c.APIPort, err = strconv.Atoi(server.Port())
	return err
}

// standalone reports whether the API server is Roster's own.
func (c *Cluster) standalone() bool {
	kinds := strings.Split(c.fleet.bin.Kubernetes, ",")
	return kinds[min(c.Index, len(kinds))-1] == Standalone
}

// ID is the cluster's identity: the UID of its kube-system namespace.
func (c *Cluster) ID(ctx context.Context) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.id == "" {
		ns, err := c.Kube.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		c.id = string(ns.UID)
	}
	return c.id, nil
}

// Kubectl runs kubectl against this cluster as its administrator and returns what it printed.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (string, error) {
	return c.kubectl(ctx, c.fleet.bin.Kubectl, "", args...)
}

// KubectlOf is Kubectl with another kubectl than the newest: see Binaries.Kubectls.
func (c *Cluster) KubectlOf(ctx context.Context, path string, args ...string) (string, error) {
	return c.kubectl(ctx, path, "", args...)
}

// Apply is `kubectl apply -f -`, with more flags if wanted.
func (c *Cluster) Apply(ctx context.Context, manifest string, flags ...string) (string, error) {
	return c.kubectl(ctx, c.fleet.bin.Kubectl, manifest, append([]string{"apply", "-f", "-"}, flags...)...)
}

func (c *Cluster) kubectl(ctx context.Context, path, stdin string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, path, append([]string{"--context", c.Name}, args...)...)
	cmd.Env = c.fleet.environ()
	cmd.Stdin = strings.NewReader(stdin)
	return run(ctx, cmd)
}

// Agentctl runs agentctl with this cluster as the one that is looked at.
func (c *Cluster) Agentctl(ctx context.Context, args ...string) (string, error) {
	return c.fleet.Agentctl(ctx, append(args, "--context", c.Name)...)
}

// StopAPIServer kills the cluster's API server; its data and address stay.
func (c *Cluster) StopAPIServer(ctx context.Context) error {
	return c.testbed(ctx, "stop", "apiserver")
}

// StartAPIServer starts it again and returns when it serves.
func (c *Cluster) StartAPIServer(ctx context.Context) error {
	return c.testbed(ctx, "start", "apiserver")
}

// APIServerEnded returns nil when no API server of an embedded cluster runs: it holds a lock as long as it does.
func (c *Cluster) APIServerEnded(context.Context) error {
	lock, err := os.Open(filepath.Join(filepath.Dir(c.admin), "lock"))
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_SH|unix.LOCK_NB); err != nil {
		return fmt.Errorf("the API server of %s: %w", c.Name, err)
	}
	return nil
}

func (c *Cluster) testbed(ctx context.Context, verb, component string, flags ...string) error {
	args := append([]string{verb, "--dir", c.fleet.testbedDir(), "--component", fmt.Sprintf("%s-%d", component, c.Index)}, flags...)
	_, err := run(ctx, exec.CommandContext(ctx, c.fleet.bin.Testbed, args...))
	return err
}

// Dir is the folder of the agent: its kubeconfig, data and log.
func (c *Cluster) Dir() string { return c.dir }

func (c *Cluster) dataDir() string { return filepath.Join(c.dir, "data") }

// FreeAddress is a host:port of this machine that nothing listens on. This process gets another one each time.
func FreeAddress(ctx context.Context) (string, error) {
	port, err := choosePort(ctx)
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), err
}

// The ports that are handed out are below the range of outgoing connections.
const (
	firstPort = 20000
	ports     = 12000
)

// looked counts the ports that were looked at. It is the process's, so that fleets that start at the same time choose
// different ones: a port is chosen before it is used.
var looked atomic.Int32 //nolint:gochecknoglobals // see above

// choosePort hands out a free port of 127.0.0.1.
func choosePort(ctx context.Context) (int, error) {
	for range ports {
		port := firstPort + (os.Getpid()*10+int(looked.Add(1)))%ports
		var config net.ListenConfig
		if l, err := config.Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			return port, l.Close()
		}
	}
	return 0, errors.New("no free port on 127.0.0.1")
}
