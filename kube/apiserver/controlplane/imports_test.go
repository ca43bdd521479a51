// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"os/exec"
	"strings"
	"testing"
)

// The program does not bring back what this package keeps out: compiling it takes a minute, and make demo has to wait.
func TestProgramLeavesOutWhatIsNotServed(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "../cmd/roster-apiserver").Output()
	if err != nil {
		t.Fatal(err)
	}
	packages := strings.Fields(string(out))
	if len(packages) < 1000 {
		t.Fatalf("go list knows %d packages", len(packages))
	}
	for _, path := range packages {
		for _, part := range []string{
			"k8s.io/kubernetes/pkg/controlplane/apiserver", "k8s.io/kubernetes/pkg/kubeapiserver/options",
			"k8s.io/kubernetes/pkg/registry/core/pod", "k8s.io/kubernetes/pkg/kubelet", "k8s.io/kubernetes/pkg/volume",
			"k8s.io/kubernetes/plugin/pkg/admission/storage", "k8s.io/cloud-provider/app",
		} {
			if path == part || strings.HasPrefix(path, part+"/") {
				t.Errorf("roster-apiserver imports %s", path)
			}
		}
	}
}
