// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/roster-mesh/roster/e2e/harness"
)

const (
	pauseImage = "roster.local/pause:1"
	dnsImage   = "roster.local/coredns:1"
	// Container images of the nodes are in the kubelet's namespace of containerd.
	imageNamespace = "k8s.io"

	readyWithin = 5 * time.Minute
	poll        = 100 * time.Millisecond
)

// ErrNodeEnded is returned when a part of a node ended by itself, and the node with it.
var ErrNodeEnded = errors.New("the node ended")

// Node is a cluster of one node. Its methods are for one goroutine at a time.
type Node struct {
	Name   string // of the cluster
	Number int    // from 1
	IP     string // of the node, which all clusters reach

	site   *Site
	client kubernetes.Interface
	init   *harness.Process // nil while it is off
}

func newNode(s *Site, name string, number int) (*Node, error) {
	n := &Node{Name: name, Number: number, IP: fmt.Sprintf("%s%d", nodePrefix, number), site: s}
	for _, dir := range []string{"log", "etcd", "kubelet/plugins-exec", "containerd", "cni", "pod-logs"} {
		if err := os.MkdirAll(n.path(dir), 0o755); err != nil {
			return nil, err
		}
	}
	if err := n.writePKI(); err != nil {
		return nil, fmt.Errorf("keys of %s: %w", name, err)
	}
	if err := n.writeFiles(); err != nil {
		return nil, fmt.Errorf("files of %s: %w", name, err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", n.Kubeconfig())
	if err != nil {
		return nil, err
	}
	n.client, err = kubernetes.NewForConfig(config)
	return n, err
}

func (n *Node) path(name string) string { return filepath.Join(n.site.Dir, n.Name, name) }

// Kubeconfig is the path of one with admin access.
func (n *Node) Kubeconfig() string { return n.path("admin.kubeconfig") }

// LogDir holds a log for each part of the node, over all its starts.
func (n *Node) LogDir() string { return n.path("log") }

func (n *Node) hostname() string        { return n.Name + "-node" }
func (n *Node) cgroup() string          { return cgroupName(n.Name) }
func (n *Node) server() string          { return "https://" + n.IP + ":6443" }
func (n *Node) socket() string          { return n.path("containerd/c.sock") }
func (n *Node) podNet() string          { return fmt.Sprintf("10.%d.0.0/24", 200+n.Number) }
func (n *Node) serviceNet() string      { return fmt.Sprintf("10.%d.0.0/16", 96+n.Number) }
func (n *Node) serviceIP(i int) string  { return fmt.Sprintf("10.%d.0.%d", 96+n.Number, i) }
func (n *Node) program(p string) string { path, _ := find(n.site.bins, p); return path }

// DNS is the address of the cluster's DNS server.
func (n *Node) DNS() string { return n.serviceIP(10) }

// up is the first start.
func (n *Node) up(ctx context.Context, images []string) error {
	began := time.Now()
	if err := makeCgroup(n.cgroup()); err != nil {
		return err
	}
	if err := n.boot(ctx, images); err != nil {
		return fmt.Errorf("%s: %w", n.Name, err)
	}
	manifest, err := n.render("coredns.yaml")
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, n.program("kubectl"), "--kubeconfig", n.Kubeconfig(), "apply", "-f", "-")
	cmd.Stdin = strings.NewReader(manifest)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: apply CoreDNS: %w: %s", n.Name, err, out)
	}
	if err := n.wait(ctx, "CoreDNS", n.dnsReady); err != nil {
		return err
	}
	n.site.log("%s: ready after %.1f s", n.Name, time.Since(began).Seconds())
	return nil
}

// Boot starts a node that has crashed, on its disk as it was, and returns when it is Ready.
func (n *Node) Boot(ctx context.Context) error { return n.boot(ctx, nil) }

func (n *Node) boot(ctx context.Context, images []string) error {
	if n.init != nil && !n.init.Ended() {
		return errors.New("the node runs already")
	}
	// What a reboot would empty. With it go the records of what ran.
	if err := os.RemoveAll(n.path("containerd/state")); err != nil {
		return err
	}
	gate, err := n.launch()
	if err != nil {
		return err
	}
	defer gate.Close()
	if err := n.plug(ctx, n.init.PID()); err != nil {
		return err
	}
	if _, err := gate.Write([]byte{gateNetwork}); err != nil {
		return err
	}
	if err := n.wait(ctx, "containerd", func(ctx context.Context) error { return n.ctr(ctx, "version") }); err != nil {
		return err
	}
	for _, path := range images {
		if err := n.Import(ctx, path); err != nil {
			return err
		}
	}
	if _, err := gate.Write([]byte{gateImages}); err != nil {
		return err
	}
	booted := time.Now()
	return n.wait(ctx, "node", func(ctx context.Context) error { return n.ready(ctx, booted) })
}

// launch starts the node's pid 1, which waits for a byte from the gate before each of its stages.
func (n *Node) launch() (io.WriteCloser, error) {
	log, err := os.OpenFile(filepath.Join(n.LogDir(), "init.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	reader, writer, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	//nolint:noctx // It outlives the call, and is ended by Crash.
	cmd := exec.Command("/proc/self/exe")
	cmd.Args[0] = "roster-node-" + n.Name
	cmd.Dir = n.path(".")
	cmd.Env = []string{
		initSpec + "=" + n.path("init.json"),
		"PATH=" + strings.Join(n.site.bins, ":") + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=" + n.path("."),
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = reader, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS | syscall.CLONE_NEWNET,
		Setsid:     true,
	}
	n.init, err = harness.StartProcess(cmd)
	if err != nil {
		return nil, errors.Join(err, writer.Close())
	}
	return writer, nil
}

// Crash is a power failure: everything on the node ends at once, and its disk stays.
func (n *Node) Crash(ctx context.Context) error {
	if n.init == nil {
		return nil
	}
	// First the network: processes that are killed still say goodbye to their connections.
	err := n.unplug(ctx)
	err = errors.Join(err, n.init.Signal(syscall.SIGKILL, time.Minute))
	n.init = nil
	return err
}

func (n *Node) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return errors.Join(n.Crash(ctx), removeCgroup(n.cgroup(), time.Minute))
}

// Import gives the node a container image: a docker archive or an OCI layout in a tar.
func (n *Node) Import(ctx context.Context, path string) error {
	return n.ctr(ctx, "images", "import", path)
}

// Shell runs a line that somebody types on the node, whose ctr finds its containerd.
func (n *Node) Shell(ctx context.Context, dir, line string) error {
	cmd := exec.CommandContext(ctx, "sh", "-euc", line)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(n.program("ctr"))+":"+os.Getenv("PATH"), "CONTAINERD_ADDRESS="+n.socket())
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s in %s: %w: %s", line, n.Name, err, lastLine(string(out)))
	}
	return nil
}

func (n *Node) ctr(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, n.program("ctr"), append([]string{"-a", n.socket(), "-n", imageNamespace}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ctr %s in %s: %w: %s", args[0], n.Name, err, lastLine(string(out)))
	}
	return nil
}

// Processes are those of a container, by this machine's process ids. The ID is as in the status of a pod.
func (n *Node) Processes(containerID string) ([]int, error) {
	_, id, found := strings.Cut(containerID, "://")
	if !found || id == "" {
		return nil, fmt.Errorf("%q is not a container's ID", containerID)
	}
	return cgroupProcesses(n.cgroup(), id)
}

// MemoryCgroup is the folder of a container's memory cgroup, and its limit in bytes.
func (n *Node) MemoryCgroup(containerID string) (folder string, limit int, err error) {
	_, id, _ := strings.Cut(containerID, "://")
	if folder, err = cgroupFolder(n.cgroup(), id); err != nil {
		return "", 0, err
	}
	limit, err = memoryLimit(folder)
	return folder, limit, err
}

// ready: the API server serves, and the kubelet has said since the boot that the node is Ready.
func (n *Node) ready(ctx context.Context, since time.Time) error {
	node, err := n.client.CoreV1().Nodes().Get(ctx, n.hostname(), metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, c := range node.Status.Conditions {
		if c.Type != corev1.NodeReady {
			continue
		}
		if c.Status != corev1.ConditionTrue {
			return errors.New(c.Message)
		}
		// Times of objects have whole seconds.
		if c.LastHeartbeatTime.Time.Before(since.Truncate(time.Second)) {
			return errors.New("the kubelet has not reported since the boot")
		}
		return nil
	}
	return errors.New("the kubelet has not reported yet")
}

func (n *Node) dnsReady(ctx context.Context) error {
	d, err := n.client.AppsV1().Deployments(metav1.NamespaceSystem).Get(ctx, "coredns", metav1.GetOptions{})
	if err == nil && d.Status.ReadyReplicas == 0 {
		err = errors.New("no pod of it is ready")
	}
	return err
}

// wait calls cond until it returns nil, the node ends, or the time is up.
func (n *Node) wait(ctx context.Context, what string, cond func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		err := cond(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-n.init.Done():
			return fmt.Errorf("%s of %s: %w: see %s", what, n.Name, ErrNodeEnded, n.LogDir())
		case <-ctx.Done():
			return fmt.Errorf("%s of %s is not ready: %w; logs are in %s", what, n.Name, err, n.LogDir())
		case <-tick.C:
		}
	}
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// Kubectl is the console of the node: it runs kubectl there, also when nobody reaches it.
func (n *Node) Kubectl(ctx context.Context, args ...string) (string, error) {
	all := append([]string{
		"--target", strconv.Itoa(n.init.PID()), "--net", n.program("kubectl"), "--kubeconfig", n.Kubeconfig(), "--server", "https://127.0.0.1:6443",
	}, args...)
	out, err := exec.CommandContext(ctx, "nsenter", all...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("kubectl on the node of %s: %w: %s", n.Name, err, lastLine(string(out)))
	}
	return string(out), nil
}
