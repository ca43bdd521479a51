// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/roster-mesh/roster/e2e/documents"
)

var cosign = flag.String("cosign", "", "`PATH` of cosign, for the test that has it sign and verify")

// What signs is given everything that was pushed, by digest; where it fails, so does the command, and nothing says how to install.
func TestSigning(t *testing.T) {
	at, dist := serve(t), t.TempDir()
	pack(t, dist)
	dir := t.TempDir()
	script := filepath.Join(dir, "sign")
	if err := os.WriteFile(script, []byte("#!/bin/sh\nprintf '%s\\n' \"$@\" >"+dir+"/args\n"), 0o700); err != nil { //nolint:gosec // it is run
		t.Fatal(err)
	}
	if out, err := publish(t, at, dist, "-sign-with", script+" --key k"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	args, err := os.ReadFile(filepath.Join(dir, "args"))
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Fields(string(args))
	image, chart := digestOf(t, at+"/agent:"+version), digestOf(t, at+"/charts/agent:"+version)
	want := []string{"--key", "k", image.String()}
	if len(got) != 2+2*3+2 || strings.Join(got[:3], " ") != strings.Join(want, " ") || !strings.Contains(string(args), chart.String()+"\n") {
		t.Errorf("it was given %q", got)
	}
	for _, ref := range got[2:] {
		if !strings.HasPrefix(ref, at+"/") || !strings.Contains(ref, "@sha256:") {
			t.Errorf("it was given %q", ref)
		}
	}
	if out, err := publish(t, at, dist, "-sign-with", "false"); err == nil || !strings.Contains(err.Error(), "not everything is signed") || strings.Contains(out, "helm install") {
		t.Errorf("%v\n%s", err, out)
	}
}

// Cosign signs what was pushed, and finds its signature on each image and on the chart; with another key it finds none.
func TestCosignVerifies(t *testing.T) {
	if *cosign == "" {
		t.Skip("cosign takes minutes to build: make e2e-signatures does, and runs this test")
	}
	at, dist := serve(t), t.TempDir()
	pack(t, dist)
	t.Setenv("COSIGN_PASSWORD", "")
	key := func() string {
		prefix := filepath.Join(t.TempDir(), "cosign")
		command(t, *cosign, "generate-key-pair", "--output-key-prefix", prefix)
		return prefix
	}
	own, other := key(), key()
	// No transparency log: this test talks to nobody.
	out, err := publish(t, at, dist, "-sign-with", *cosign+" sign --yes --allow-http-registry --tlog-upload=false --use-signing-config=false --key "+own+".key")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	docs := documents.NewReader("../../..")
	verify := func(ref, prefix string) error {
		line, err := docs.With("cosign verify", *cosign+" verify --allow-http-registry --insecure-ignore-tlog=true",
			"cosign.pub", prefix+".pub", "registry.example/team/agent:VERSION", ref).Lines(documents.Release, "cosign verify")
		if err != nil {
			t.Fatal(err)
		}
		return exec.CommandContext(t.Context(), "sh", "-euc", line).Run()
	}
	for _, name := range []string{"/agent:", "/roster-apiserver:", "/charts/agent:"} {
		ref := digestOf(t, at+name+version).String()
		if err := verify(ref, own); err != nil {
			t.Errorf("%s: %v", ref, err)
		}
		if err := verify(ref, other); err == nil {
			t.Errorf("%s is signed by a key that signed nothing", ref)
		}
	}
	if err := docs.Untyped("cmd/internal/publish.TestCosignVerifies"); err != nil {
		t.Error(err)
	}
}

func command(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}
