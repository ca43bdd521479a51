// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package standalone

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/roster-mesh/roster/e2e/harness"
)

// expired writes a bundle again, as one whose hour has ended a second ago.
func expired(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	first, body, _ := bytes.Cut(data, []byte("\n"))
	var content map[string]any
	if err := json.Unmarshal(body, &content); err != nil {
		t.Fatal(err)
	}
	content["expires"] = time.Now().Add(-time.Second)
	if body, err = json.Marshal(content); err != nil {
		t.Fatal(err)
	}
	name := first[:bytes.LastIndexByte(first, ' ')]
	late := file + ".late"
	if err := os.WriteFile(late, fmt.Appendf(nil, "%s %x\n%s", name, sha256.Sum256(body), body), 0o600); err != nil {
		t.Fatal(err)
	}
	return late
}

// TestBundleCountsOnce: of two servers that start with one bundle at the same time, one gets in and the other one says
// why not; so does one that starts with it after its hour. What is refused does not become a cluster with the same keys.
func TestBundleCountsOnce(t *testing.T) {
	t.Parallel()
	first := start(t, filepath.Join(t.TempDir(), "d"), "--cluster-name", "alpha", "--peer-listen", address(t))
	file := bundle(t, first, address(t))
	late := expired(t, file)
	dir := filepath.Join(t.TempDir(), "late")
	if code, said := refused(t, dir, "--listen", "127.0.0.1:0", "--bundle", late); code != 1 || !strings.Contains(said, "--bundle "+late+": its hour is over") {
		t.Errorf("after its hour: code %d, %s", code, said)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("after its hour: a directory was made")
	}

	var both [2]*harness.Process
	var said [2]bytes.Buffer
	var dirs [2]string
	for i := range both {
		dirs[i] = filepath.Join(t.TempDir(), fmt.Sprint("d", i))
		cmd := command(t, dirs[i], "--bundle", file)
		cmd.Stderr = &said[i]
		var err error
		if both[i], err = harness.StartProcess(cmd); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = both[i].Signal(syscall.SIGKILL, within) })
	}
	lost := 0
	select {
	case <-both[0].Done():
	case <-both[1].Done():
		lost = 1
	case <-time.After(within):
		t.Fatal("both servers go on")
	}
	if !strings.Contains(said[lost].String(), "--bundle "+file+": another server has used it") {
		t.Errorf("the second one said:\n%s", &said[lost])
	}
	if code, said := refused(t, dirs[lost], "--listen", "127.0.0.1:0"); code != 1 || !strings.Contains(said, "--data-dir "+dirs[lost]) || !strings.Contains(said, "--bundle") {
		t.Errorf("the second one, without its bundle: code %d, %s", code, said)
	}
	eventually(t, "the other server has joined", func(context.Context) error {
		_, err := os.Stat(filepath.Join(dirs[1-lost], "etcd", "member", "wal"))
		return err
	})
	select {
	case <-both[1-lost].Done():
		t.Errorf("the first one ended:\n%s", &said[1-lost])
	default:
	}
}

// TestCutOffJoin: a server that is killed at any step of its first start gets in at the next one, with the same bundle;
// without the bundle it is refused until it has got in.
func TestCutOffJoin(t *testing.T) {
	t.Parallel()
	first := start(t, filepath.Join(t.TempDir(), "d"), "--cluster-name", "alpha", "--peer-listen", address(t))
	create(t, first.kubernetes(t), "before")
	file, dir := bundle(t, first, address(t)), filepath.Join(t.TempDir(), "d")
	wal := filepath.Join(dir, "etcd", "member", "wal")
	for _, step := range []string{"lock", "server.json", "member.json", "pki/ca.pem", "pki/peer.pem", "agent.kubeconfig", "etcd.sock", "etcd/member/snap", "etcd/member/wal"} {
		cmd := command(t, dir, "--bundle", file)
		var said bytes.Buffer
		cmd.Stderr = &said
		p, err := harness.StartProcess(cmd)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.Signal(syscall.SIGKILL, within) })
		for deadline := time.Now().Add(within); ; time.Sleep(time.Millisecond) {
			if _, err := os.Stat(filepath.Join(dir, filepath.FromSlash(step))); err == nil {
				break
			}
			select {
			case <-p.Done():
				t.Fatalf("%s: it ended:\n%s", step, &said)
			default:
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s is not there", step)
			}
		}
		if err := p.Signal(syscall.SIGKILL, within); err != nil {
			t.Fatal(err)
		}
		_, began := os.Stat(wal)
		_, named := os.Stat(filepath.Join(dir, "member.json"))
		if code, said := -1, ""; named == nil && errors.Is(began, os.ErrNotExist) {
			if code, said = refused(t, dir, "--listen", "127.0.0.1:0"); code != 1 || !strings.Contains(said, "start with that --bundle again") {
				t.Errorf("%s, without the bundle: code %d, %s", step, code, said)
			}
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	s := start(t, dir, "--bundle", file)
	if !has(t, s.kubernetes(t), "before") {
		t.Error("it lacks what was created before")
	}
	create(t, s.kubernetes(t), "after")
	if err := s.Signal(syscall.SIGKILL, within); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "etcd")); err != nil {
		t.Fatal(err)
	}
	if code, said := refused(t, dir, "--listen", "127.0.0.1:0"); code != 1 || !strings.Contains(said, "--data-dir "+dir+": what etcd kept in it is lost") {
		t.Errorf("without its data: code %d, %s", code, said)
	}
}
