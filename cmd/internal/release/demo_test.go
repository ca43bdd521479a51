// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
)

// The archive of the demo has all that the demo starts, below one folder, and the terms of it.
func TestDemoArchive(t *testing.T) {
	r := newRelease(t)
	r.platforms = imagePlatforms()[:1]
	if err := r.writeDemo(io.Discard); err != nil {
		t.Fatal(err)
	}
	got := gunzip(t, contents(t, r, "roster-demo-1.2.3-linux-amd64.tar.gz"))
	const folder = "roster-demo-1.2.3-linux-amd64/"
	want := []string{"LICENSE", "README", "THIRD-PARTY-LICENSES", "bin/agent", "bin/agentctl", "bin/kubectl", "bin/roster-apiserver", "demo"}
	for i := range want {
		want[i] = folder + want[i]
	}
	if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, want) {
		t.Errorf("it has %q, want %q", names, want)
	}
	if program := string(got[folder+"bin/kubectl"]); program != "kubectl for linux/amd64" {
		t.Errorf("kubectl is %q", program)
	}
	if terms := string(got[folder+"THIRD-PARTY-LICENSES"]); !strings.Contains(terms, "shared terms") {
		t.Errorf("the terms of others are %q", terms)
	}
}
