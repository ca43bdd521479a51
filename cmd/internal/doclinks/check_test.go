// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	file := func(lines ...string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(strings.Join(lines, "\n"))} }
	repository := fstest.MapFS{
		"docs/rules.md": file(
			"# Rules", "", "## What is `never` copied?", "## A [link](api.md), again", "## Again", "## Again",
			"```", "# no heading", "[no link](none.md)", "```",
			"[down](#again-1), [a file](api.md), [with a title](api.md \"API\"), [a folder](../agent), [up](/README.md),",
			"[gone](gone.md), [dead](#dead), [far](https://example.com/x#y), `[code](none.md)`",
			"[ref]: ../agent/none.go", "![picture](scale.png)",
		),
		"docs/api.md":      file("<a id=\"Spec\"></a>", "[spec](#Spec) [not copied](rules.md#what-is-never-copied) [link](rules.md#a-link-again) [fenced](rules.md#no-heading)"),
		"docs/scale.png":   {Data: []byte{0xff}},
		"README.md":        file("[rules](docs/rules.md#rules)", "docs/rules.md#rules-1"),
		"docs/security.md": file("`TestIsThere`, `TestIsThere/part`, `FuzzIsThere` and `TestIsGone/part`; TestIsGone, `Testing`"),
		"agent/a_test.go":  file("func TestIsThere(t *testing.T) {", "func FuzzIsThere(f *testing.F) {", "// func TestIsGone(t)"),
		"agent/own.go":     file(`const a = "see docs/restore.md"`, "// docs/rules.md#again", `"https://github.com/roster-mesh/roster/blob/main/docs/api.md#none"`, "xdocs/none.md"),
		"bin/tool.md":      file("[built](none.md)"),
		"docs/development.md": file(
			"`agent/own.go` `own.go` `agent/` `agent/{own,none}.go` `*/own.go` `session.go` `agent/none` `dist/` `e2e/pods/bin/x`",
			"`k8s.io/api` `CLUSTER/log` `/sys/fs/cgroup` `make sim` `go test ./agent ./none` `a/b=c` `github.com/roster-mesh/roster/agent/...`",
		),
	}
	got, err := check(repository)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"README.md:2: docs/rules.md#rules-1: there is no such heading",
		"agent/own.go:1: docs/restore.md: there is no such file",
		"agent/own.go:3: docs/api.md#none: there is no such heading",
		"docs/api.md:2: rules.md#no-heading: there is no such heading",
		"docs/development.md:1: `agent/{own,none}.go`: there is no such path",
		"docs/development.md:1: `session.go`: there is no such path",
		"docs/development.md:1: `agent/none`: there is no such path",
		"docs/development.md:2: `none`: there is no such path",
		"docs/rules.md:12: gone.md: there is no such file",
		"docs/rules.md:12: #dead: there is no such heading",
		"docs/rules.md:13: ../agent/none.go: there is no such file",
		"docs/security.md:1: `TestIsGone`: there is no such test",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestHere: the documents of this repository lead somewhere.
func TestHere(t *testing.T) {
	t.Parallel()
	got, err := check(os.DirFS("../../.."))
	if err != nil || len(got) > 0 {
		t.Errorf("%v\n%s", err, strings.Join(got, "\n"))
	}
}
