// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package standalone

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

	"github.com/roster-mesh/roster/e2e/documents"
	"github.com/roster-mesh/roster/e2e/harness"
)

// reader types the commands of docs/standalone.md.
type reader struct {
	*testing.T

	docs *documents.Reader
	work string
	env  []string
}

func newReader(t *testing.T) *reader {
	t.Helper()
	bin, err := harness.FindBinaries()
	if err != nil {
		t.Fatal(err)
	}
	r := &reader{T: t, docs: documents.NewReader(bin.Root), work: t.TempDir()}
	path := strings.Join([]string{filepath.Join(bin.Root, "bin"), filepath.Dir(bin.Kubectl), os.Getenv("PATH")}, ":")
	r.env = append(os.Environ(), "PATH="+path, "HOME="+r.work, "KUBECONFIG="+filepath.Join(r.work, "none"))
	if err := os.Symlink(filepath.Join(bin.Root, "bin"), filepath.Join(r.work, "bin")); err != nil {
		t.Fatal(err)
	}
	return r
}

// with is the reader with something in the place of words.
func (r *reader) with(words ...string) *reader {
	inner := *r
	inner.docs = r.docs.With(words...)
	return &inner
}

// lines is what the document says, each command named by how it begins.
func (r *reader) lines(commands ...string) string {
	r.Helper()
	return must(r.T)(r.docs.Lines(documents.Standalone, commands...))
}

// runs starts a program that goes on until the test ends, or until it is stopped.
func (r *reader) runs(command string) (stop func()) {
	r.Helper()
	cmd := exec.Command("sh", "-euc", "exec "+r.lines(command))
	cmd.Dir, cmd.Env = r.work, append(r.env, "ROSTER_HTTP_LISTEN="+address(r.T))
	cmd.Stderr = r.Output()
	process, err := harness.StartProcess(cmd)
	if err != nil {
		r.Fatal(err)
	}
	stop = func() {
		if err := process.Signal(syscall.SIGTERM, within); err != nil {
			r.Error(err)
		}
	}
	r.Cleanup(stop)
	return stop
}

// until types commands again and again, until they work and print these texts.
func (r *reader) until(commands []string, texts ...string) {
	r.Helper()
	lines := r.lines(commands...)
	eventually(r.T, lines, documents.Prints(r.shell, lines, texts...))
}

func (r *reader) shell(ctx context.Context, lines string) (string, error) {
	cmd := exec.CommandContext(ctx, "sh", "-euc", lines)
	cmd.Dir, cmd.Env = r.work, r.env
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestDocument makes clusters without Kubernetes as docs/standalone.md says: two that become a group, and one for others on other
// machines, for which this one stands.
func TestDocument(t *testing.T) {
	t.Parallel()
	r := newReader(t)
	folder := r.with("/tmp/roster", filepath.Join(r.work, "roster"))
	api, beta := address(t), address(t)
	alpha := folder.with("127.0.0.1:6443", api, "127.0.0.1:7946", address(t), "127.0.0.1:8080", address(t))
	alpha.runs("bin/agent run --local embedded --cluster-name alpha")
	folder.with("127.0.0.1:6444", beta, "127.0.0.1:7947", address(t), "127.0.0.1:8081", address(t)).runs("bin/agent run --local embedded --cluster-name beta")
	server, mesh := address(t), address(t)
	own := r.with("/var/lib/roster", filepath.Join(r.work, "own"))
	own.env = append(own.env, "ROSTER_LOCAL_LISTEN="+server, "ROSTER_MESH_LISTEN="+mesh)
	own.with("cluster-1.example.com:7946", mesh, "cluster-1.example.com:6443", server).runs("bin/agent run --local embedded --data-dir /var/lib/roster")

	folder.until([]string{"export KUBECONFIG=/tmp", "bin/agentctl join", "kubectl --context beta get clusters"}, "alpha", "beta", "Synced")
	own.until([]string{"export KUBECONFIG=/var", "kubectl get clusters", "agentctl status"}, "cluster-1", "healthy")
	must(t)("", r.docs.Untyped("e2e/standalone.TestDocument"))
}

// TestDocumentOfServers does what docs/standalone.md says of a server without an agent, of a second one, and of backups.
func TestDocumentOfServers(t *testing.T) {
	t.Parallel()
	r := newReader(t)
	first, second, restored := filepath.Join(r.work, "first"), filepath.Join(r.work, "second"), filepath.Join(r.work, "restored")
	data := r.with("/var/lib/roster-apiserver", first)
	one := data.with(":6443", address(t), "cluster-1.example.com", "localhost")
	const server = "roster-apiserver standalone --data-dir /var/lib/roster-apiserver "
	stop := one.runs(server + "--cluster-name cluster-1 --listen :6443 --advertise cluster-1.example.com")
	agent := data.with("--data-dir /var/lib/roster", "--data-dir "+filepath.Join(r.work, "agent"))
	r.serves(first)
	agent.env = append(agent.env, "ROSTER_MESH_LISTEN="+address(t))
	end := agent.runs("agent run --kubeconfig")
	r.eventuallyPrints(first, "get clusters", "cluster-1")
	end()
	stop()

	one.with("server-1.example.com:7380", address(t)).runs(server + "--cluster-name cluster-1 --listen :6443 --advertise cluster-1.example.com --peer-listen")
	r.serves(first)
	other := data.with("server-2.example.com:7380", address(t))
	other.until([]string{"roster-apiserver add"})
	r.with("/var/lib/roster-apiserver", second, ":6443", address(t), "cluster-1.example.com", "localhost").runs(server + "--bundle")
	r.serves(second)
	r.eventuallyPrints(second, "get clusters", "cluster-1")
	other.until([]string{"roster-apiserver remove-member"})

	data.until([]string{"roster-apiserver snapshot save"})
	back := r.with("/var/lib/restored", restored)
	back.until([]string{"roster-apiserver snapshot restore"})
	back.with(":6443", address(t)).runs("roster-apiserver standalone --data-dir /var/lib/restored")
	r.eventuallyPrints(restored, "get clusters", "cluster-1")
	must(t)("", r.docs.Untyped("e2e/standalone.TestDocumentOfServers"))
}

// serves waits until a server is ready: before that, the rights of an agent are not in force, which ends it.
func (r *reader) serves(dir string) {
	r.Helper()
	r.eventuallyPrints(dir, "get --raw /readyz", "ok")
}

func (r *reader) eventuallyPrints(dir, args, text string) {
	r.Helper()
	eventually(r.T, "kubectl "+args, func(ctx context.Context) error {
		cmd := exec.CommandContext(ctx, "sh", "-euc", "kubectl --kubeconfig "+filepath.Join(dir, "admin.kubeconfig")+" "+args)
		cmd.Env = r.env
		out, err := cmd.CombinedOutput()
		if err == nil && !strings.Contains(string(out), text) {
			err = errors.New("it does not print " + text)
		}
		if err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
		return err
	})
}
