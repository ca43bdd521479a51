// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package gitops

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/roster-mesh/roster/e2e/documents"
	"github.com/roster-mesh/roster/e2e/harness"
)

// TestVersionsInDocument: docs/gitops.md names the versions that are built.
func TestVersionsInDocument(t *testing.T) {
	bin, err := harness.FindBinaries()
	if err != nil {
		t.Fatal(err)
	}
	document, err := os.ReadFile(filepath.Join(bin.Root, "docs", "gitops.md"))
	if err != nil {
		t.Fatal(err)
	}
	for path, name := range map[string]string{"argocd": "Argo CD", "flux": "kustomize-controller"} {
		module, err := os.ReadFile(filepath.Join("build", path, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		version := regexp.MustCompile(`\s(?:github.com/argoproj/argo-cd/v3|github.com/fluxcd/kustomize-controller) v(\S+)`).FindSubmatch(module)
		if version == nil || !strings.Contains(string(document), name+" "+string(version[1])) {
			t.Errorf("docs/gitops.md does not say %s %s", name, version)
		}
	}
}

// block is that of a language and with a text in a section of docs/export.md. Argo CD and Flux run in cluster-1: words, each followed
// by another one, say so.
func (r *room) block(heading, language, text string, words ...string) string {
	r.Helper()
	return r.must(r.docs.With(words...).Block(documents.Export, heading, language, text))
}

// example plays docs/examples: it applies rights and rule, and returns what the comment of the rule says to type, for the two
// clusters that there are.
func (r *room) example(name string) (commands string) {
	r.Helper()
	examples := filepath.Join(r.root, "docs", "examples")
	for _, c := range r.fleet.Clusters {
		r.must(c.Kubectl(r.Context(), "apply", "-f", filepath.Join(examples, "rights", name)))
	}
	rule := filepath.Join(examples, "rules", name)
	r.must(r.one.Kubectl(r.Context(), "apply", "-f", rule))
	data, err := os.ReadFile(rule)
	if err != nil {
		r.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if command, is := strings.CutPrefix(line, "#     "); is && !strings.Contains(line, "cluster-3") {
			commands += command
		}
	}
	if commands == "" {
		r.Fatalf("%s says no commands", rule)
	}
	return commands
}
