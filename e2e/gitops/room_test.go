// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package gitops

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/roster-mesh/roster/e2e/documents"
	"github.com/roster-mesh/roster/e2e/harness"
)

const (
	within  = 2 * time.Minute
	shop    = "shop" // the namespace that is deployed to
	private = harness.Namespace + "-private"
)

func TestMain(m *testing.M) {
	if _, err := harness.InNetworkNamespace(); err != nil {
		fmt.Fprintln(os.Stderr, "e2e/gitops:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// room is a group of two clusters that have the names of the documents. The tools run in the first and deploy to the second.
type room struct {
	*testing.T

	fleet    *harness.Fleet
	one, two *harness.Cluster
	docs     *documents.Reader
	root     string // of the checkout
	work     string // for files
}

func start(t *testing.T) *room {
	t.Helper()
	bin, err := harness.FindBinaries()
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"cluster-1", "cluster-2"}
	fleet, err := harness.Up(t.Context(), harness.Options{Binaries: bin, Dir: t.TempDir(), Names: names, Log: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := fleet.Close(); err != nil {
			t.Error(err)
		}
	})
	r := &room{T: t, fleet: fleet, one: fleet.Clusters[0], two: fleet.Clusters[1], docs: documents.NewReader(bin.Root), root: bin.Root, work: t.TempDir()}
	for _, c := range fleet.Clusters {
		r.must("", errors.Join(c.Install(t.Context()), c.StartAgent(t.Context())))
	}
	r.must(r.one.Agentctl(t.Context(), "join", "--peer-context", "cluster-2"))
	r.label("example.com/stage", "prod")
	r.eventually("cluster-1 has a credential that cluster-2 issued", r.issued)
	return r
}

// in is the same room for a part of the test.
func (r *room) in(t *testing.T) *room {
	inner := *r
	inner.T = t
	return &inner
}

// label labels cluster-2, and waits until cluster-1 has heard.
func (r *room) label(key, value string) {
	r.Helper()
	r.must(r.two.Kubectl(r.Context(), "label", "cluster", "cluster-2", key+"="+value))
	r.eventually("cluster-1 knows the label", func(ctx context.Context) error {
		u, err := r.one.Dynamic.Resource(harness.Clusters()).Get(ctx, "cluster-2", metav1.GetOptions{})
		if err == nil && u.GetLabels()[key] != value {
			err = fmt.Errorf("it has %v", u.GetLabels())
		}
		return err
	})
}

// issued: cluster-1 holds the credential that is exported, of an account that cluster-2 has made for it.
func (r *room) issued(ctx context.Context) error {
	id, err := r.two.ID(ctx)
	if err != nil {
		return err
	}
	secret, err := r.one.Kube.CoreV1().Secrets(private).Get(ctx, "peer-"+id, metav1.GetOptions{})
	if err != nil {
		return err
	}
	_, err = clientcmd.RESTConfigFromKubeConfig(secret.Data["kubeconfig"])
	return err
}

func (r *room) must(out string, err error) string {
	r.Helper()
	if err != nil {
		r.Fatal(err, out)
	}
	return out
}

func (r *room) eventually(what string, cond func(context.Context) error) {
	r.Helper()
	if _, err := harness.Wait(r.Context(), what, within, cond); err != nil {
		r.Fatal(err)
	}
}

func (r *room) apply(c *harness.Cluster, manifest string, flags ...string) {
	r.Helper()
	r.must(c.Apply(r.Context(), manifest, flags...))
}

// types runs commands as a person types them, in a folder.
func (r *room) types(dir, commands string) {
	r.Helper()
	if out, err := r.fleet.Shell(r.Context(), dir, commands); err != nil {
		r.Fatalf("%s\n%v\n%s", commands, err, out)
	}
}

// tool is the path of something that build/build.sh has made.
func (r *room) tool(name string) string {
	r.Helper()
	path := filepath.Join(r.root, "bin", "gitops", name)
	if _, err := os.Stat(path); err != nil {
		r.Fatalf("%v: %v; run `make e2e-gitops`", harness.ErrNotBuilt, err)
	}
	return path
}

// runs starts a tool, which ends with the test. What it said last is shown when the test fails.
func (r *room) runs(name, program string, env []string, args ...string) {
	r.Helper()
	home := filepath.Join(r.work, name)
	r.must("", os.MkdirAll(filepath.Join(home, "tmp"), 0o755))
	log, err := os.Create(filepath.Join(home, "log"))
	if err != nil {
		r.Fatal(err)
	}
	cmd := exec.Command(program, args...)
	cmd.Dir = home
	cmd.Env = append([]string{"PATH=" + filepath.Dir(program) + ":" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + filepath.Join(home, "tmp")}, env...)
	cmd.Stdout, cmd.Stderr = log, log
	process, err := harness.StartProcess(cmd)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() {
		if process.Ended() {
			r.Errorf("%s ended by itself, with %d", name, process.Code())
		} else if err := process.Signal(syscall.SIGTERM, 10*time.Second); err != nil {
			r.Log(err)
		}
		if err := log.Close(); err != nil {
			r.Error(err)
		}
		if data, err := os.ReadFile(log.Name()); r.Failed() && err == nil {
			lines := strings.Split(strings.TrimSpace(string(data)), "\n")
			r.Logf("the last lines of %s:\n%s", name, strings.Join(lines[max(0, len(lines)-40):], "\n"))
		}
	})
}

// account writes a kubeconfig of a ServiceAccount of cluster-1, as a pod has it.
func (r *room) account(namespace, name string) (path string) {
	r.Helper()
	path = filepath.Join(r.work, name+".kubeconfig")
	token := r.must(r.one.Token(r.Context(), namespace, name))
	r.must("", r.one.WriteKubeconfig(path, token))
	return path
}

func (r *room) address() string { r.Helper(); return r.must(harness.FreeAddress(r.Context())) }

// arrives waits for the copy of a Secret.
func (r *room) arrives(in *harness.Cluster, namespace, name string) {
	r.Helper()
	r.eventually(fmt.Sprintf("%s/%s is in %s", namespace, name, in.Name), func(ctx context.Context) error {
		_, err := in.Kube.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
		return err
	})
}

// has: cluster-2 has a ConfigMap that says what it should.
func (r *room) has(name, value string) func(context.Context) error {
	return func(ctx context.Context) error {
		got, err := r.two.Kube.CoreV1().ConfigMaps(shop).Get(ctx, name, metav1.GetOptions{})
		if err == nil && got.Data["currency"] != value {
			err = fmt.Errorf("it says %v", got.Data)
		}
		return err
	}
}

// lacks: it has none, any more.
func (r *room) lacks(name string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := r.two.Kube.CoreV1().ConfigMaps(shop).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(errors.New("it is there"), err)
	}
}

// goods is the file that is deployed.
func goods(name, value string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\ndata: {currency: %s}\n", name, value)
}
