// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package scenes

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

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/roster-mesh/roster/e2e/documents"
	"github.com/roster-mesh/roster/e2e/harness"
)

// within is how long anything may take that needs some requests, on a busy machine.
const within = time.Minute

// The clusters. The first three are installed as three documents say; the last two are Roster's own API servers.
const (
	one, two, three, four = "cluster-1", "cluster-2", "cluster-3", "cluster-4"
	shop                  = "shop-1"
)

// aliases are the contexts of other names that documents use.
var aliases = map[string]string{"A": one, "B": two, "west": two, "other": shop, "registry-1": four, "cluster-5": shop}

// room is the place of somebody who reads the documents, and types.
type room struct {
	*testing.T

	whole   *testing.T // of all scenes
	fleet   *harness.Fleet
	docs    *documents.Reader
	root    string // of the checkout
	work    string // the folder in which commands are typed
	current string // the current context
}

func start(t *testing.T) *room {
	t.Helper()
	bin, err := harness.FindBinaries()
	if err != nil {
		t.Fatal(err)
	}
	bin.Kubernetes = strings.Join([]string{"newest", "newest", "newest", harness.Standalone, harness.Standalone}, ",")
	fleet, err := harness.Up(t.Context(), harness.Options{
		Binaries: bin, Dir: t.TempDir(), Names: []string{one, two, three, four, shop}, Log: t.Logf, ServersOnly: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := fleet.Close(); err != nil {
			t.Error(err)
		}
	})
	r := &room{T: t, whole: t, fleet: fleet, docs: documents.NewReader(bin.Root), root: bin.Root, work: t.TempDir(), current: one}
	for _, folder := range []string{"bin", "charts", "docs"} {
		r.must("", os.Symlink(filepath.Join(r.root, folder), filepath.Join(r.work, folder)))
	}
	r.contexts()
	return r
}

// contexts writes a kubeconfig for each cluster, with the contexts of all under all names, of which its own is the current one. The
// file own has the first alone.
func (r *room) contexts() {
	config, err := clientcmd.LoadFromFile(r.fleet.Kubeconfig)
	if err != nil {
		r.Fatal(err)
	}
	for alias, name := range aliases {
		config.Contexts[alias] = config.Contexts[name]
	}
	for _, c := range r.fleet.Clusters {
		config.CurrentContext = c.Name
		r.must("", clientcmd.WriteToFile(*config, r.kubeconfig(c.Name)))
	}
	own := config.DeepCopy()
	own.Contexts = map[string]*clientcmdapi.Context{one: config.Contexts[one]}
	own.Clusters = map[string]*clientcmdapi.Cluster{one: config.Clusters[one]}
	own.AuthInfos = map[string]*clientcmdapi.AuthInfo{one: config.AuthInfos[one]}
	own.CurrentContext = one
	r.must("", clientcmd.WriteToFile(*own, r.kubeconfig("own")))
}

func (r *room) kubeconfig(name string) string { return filepath.Join(r.fleet.Dir, name+".kubeconfig") }

// in is the room with another current context.
func (r *room) in(name string) *room {
	inner := *r
	inner.current = name
	return &inner
}

// with is the room with something in the place of words of the documents.
func (r *room) with(words ...string) *room {
	inner := *r
	inner.docs = r.docs.With(words...)
	return &inner
}

func (r *room) cluster(name string) *harness.Cluster { return r.fleet.Find(name) }

func (r *room) must(out string, err error) string {
	r.Helper()
	if err != nil {
		r.Fatal(err, out)
	}
	return out
}

func (r *room) write(name, text string) {
	r.Helper()
	path := filepath.Join(r.work, name)
	r.must("", errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)))
}

func (r *room) apply(name, manifest string) {
	r.Helper()
	r.must(r.cluster(name).Apply(r.Context(), manifest))
}

// lines are commands of a document, each named by how it begins, as they are typed here.
func (r *room) lines(document string, commands ...string) string {
	r.Helper()
	return r.must(r.docs.Lines(document, commands...))
}

// types types commands of a document, in one shell, and returns what they print.
func (r *room) types(document string, commands ...string) string {
	r.Helper()
	began := time.Now()
	lines := r.lines(document, commands...)
	out, err := r.shell(r.Context(), lines)
	r.Logf("%7.3f s  %s", time.Since(began).Seconds(), lines)
	return r.must(out, err)
}

func (r *room) shell(ctx context.Context, lines string) (string, error) {
	return r.fleet.Shell(ctx, r.work, "export KUBECONFIG="+r.kubeconfig(r.current)+"\n"+lines)
}

// prints: what was printed has these texts.
func (r *room) prints(out string, texts ...string) {
	r.Helper()
	for _, text := range texts {
		if !strings.Contains(out, text) {
			r.Fatalf("it does not print %q:\n%s", text, out)
		}
	}
}

// until types a command of a document again and again, until what it prints has these texts.
func (r *room) until(document, command string, texts ...string) {
	r.Helper()
	line := r.lines(document, command)
	r.eventually(fmt.Sprintf("%s prints %q", line, texts), documents.Prints(r.shell, line, texts...))
}

func (r *room) eventually(what string, cond func(context.Context) error) {
	r.Helper()
	took, err := harness.Wait(r.Context(), what, within, cond)
	r.must("", err)
	r.Logf("%7.3f s  %s", took.Seconds(), what)
}

// shows is a condition: kubectl prints this about a cluster.
func (r *room) shows(name, want string, args ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		out, err := r.cluster(name).Kubectl(ctx, args...)
		if err == nil && !strings.Contains(out, want) {
			err = fmt.Errorf("kubectl %s in %s does not print %q: %s", strings.Join(args, " "), name, want, out)
		}
		return err
	}
}

// none is a condition: kubectl finds nothing in a cluster.
func (r *room) none(name string, args ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		out, err := r.cluster(name).Kubectl(ctx, append(args, "--ignore-not-found")...)
		if err == nil && out != "" {
			err = fmt.Errorf("kubectl %s in %s prints %s", strings.Join(args, " "), name, out)
		}
		return err
	}
}

// runs starts a command of a document that goes on until it is stopped, or the test ends, and returns the path of what it prints.
func (r *room) runs(document, command string, env ...string) (log string, stop func()) {
	r.Helper()
	line := r.lines(document, command)
	file, err := os.CreateTemp(r.work, "log-")
	if err != nil {
		r.Fatal(err)
	}
	cmd := exec.Command("sh", "-euc", "exec "+line)
	cmd.Dir, cmd.Env = r.work, append(append(r.fleet.Environ(), "KUBECONFIG="+r.kubeconfig(r.current)), env...)
	cmd.Stdout, cmd.Stderr = file, file
	process, err := harness.StartProcess(cmd)
	r.must("", errors.Join(err, file.Close()))
	stop = func() {
		if err := process.Signal(syscall.SIGTERM, within); err != nil {
			r.whole.Error(err)
		}
	}
	r.whole.Cleanup(func() {
		stop()
		if data, err := os.ReadFile(file.Name()); r.whole.Failed() && err == nil {
			r.whole.Logf("%s: last lines:\n%s", line, data[max(0, len(data)-3000):])
		}
	})
	return file.Name(), stop
}
