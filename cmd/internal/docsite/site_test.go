// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
)

const repository = "https://example.test/blob/main"

var (
	target = regexp.MustCompile(`(?:href|src|srcset)="([^"]*)"`)
	anchor = regexp.MustCompile(`id="([^"]*)"`)
)

// All documents of this repository have a page, every link of a page leads to a page, an anchor or a file that is there, or out of
// the site, and the menu has what README.md has.
func TestSiteOfThisRepository(t *testing.T) {
	t.Parallel()
	root := os.DirFS("../../..")
	s, err := read(root, repository)
	if err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	for range 2 { // again, over what is there
		if err := s.write(out); err != nil {
			t.Fatal(err)
		}
	}
	documents, err := fs.Glob(root, "docs/*.md")
	if err != nil || len(documents) == 0 {
		t.Fatal(documents, err)
	}
	listed := strings.Join(s.menu, " ") + " "
	for _, d := range documents {
		if s.pages[d] == nil {
			t.Errorf("%s has no page", d)
		}
		if n := strings.Count(listed, d+" "); n > 1 || n == 0 && d != "docs/benchmarks.md" {
			t.Errorf("%s is %d times in the menu", d, n)
		}
	}
	texts := written(t, out)
	for name, text := range texts {
		for _, m := range target.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				if strings.HasPrefix(m[1], repository) && strings.Contains(text, "<main") && !there(root, strings.TrimPrefix(m[1], repository+"/")) {
					t.Errorf("%s: %s is not in the repository", name, m[1])
				}
				continue
			}
			to, at, _ := strings.Cut(m[1], "#")
			file := name
			if to != "" {
				file = path.Join(path.Dir(name), to)
			}
			if text, ok := texts[file]; !ok {
				t.Errorf("%s: there is no %s", name, m[1])
			} else if at != "" && !hasAnchor(text, at) {
				t.Errorf("%s: %s has no #%s", name, file, at)
			}
		}
	}
}

func there(root fs.FS, name string) bool {
	_, err := fs.Stat(root, name)
	return err == nil
}

func hasAnchor(page, name string) bool {
	for _, m := range anchor.FindAllStringSubmatch(page, -1) {
		if m[1] == name {
			return true
		}
	}
	return false
}

// written is what a site has, by path.
func written(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(name)
		rel, relErr := filepath.Rel(dir, name)
		if relErr != nil {
			return relErr
		}
		out[filepath.ToSlash(rel)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Headings have the names that they have on GitHub; what is no document leads to the repository; code is no HTML.
func TestPage(t *testing.T) {
	t.Parallel()
	files := fstest.MapFS{
		"README.md":      {Data: []byte("# Top\n\n## Read on\n\n| to | read |\n|---|---|\n| look | [docs/a.md](docs/a.md#what-now-1) |\n| why | [docs/why](docs/why) |\n")},
		"docs/a.md":      {Data: []byte("# `<A>` & *b*\n\n## What now?\n\n## What now\n\n[up](../README.md) [code](../cmd/x.go) [dir](../cmd) [out](https://k8s.io)\n\n`<script>`\n\n![p](i/p.png)\n")},
		"docs/i/p.png":   {Data: []byte("png")},
		"docs/why/01.md": {Data: []byte("# First\n")},
		"cmd/x.go":       {Data: []byte("package x\n")},
	}
	s, err := read(files, repository+"/")
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "site")
	if err := s.write(out); err != nil {
		t.Fatal(err)
	}
	texts := written(t, out)
	for name, wants := range map[string][]string{
		"index.html": {`href="docs/a.html#what-now-1"`, `<a href="docs/why/index.html">Why</a>`, `<title>Top – Roster</title>`},
		"docs/a.html": {
			`<title>&lt;A&gt; &amp; b – Roster</title>`, `id="what-now"`, `id="what-now-1"`, `href="../index.html"`, `aria-current="page"`,
			`href="` + repository + `/cmd/x.go"`, `href="` + repository + `/cmd"`, `<code>&lt;script&gt;</code>`, `src="i/p.png"`, `href="../site.css"`,
		},
		"docs/why/index.html": {`<a href="../../docs/why/01.html">First</a>`},
		"docs/why/01.html":    {`<a href="../../docs/why/index.html" aria-current="page">Why</a>`},
		"docs/i/p.png":        {"png"},
	} {
		for _, want := range wants {
			if !strings.Contains(texts[name], want) {
				t.Errorf("%s does not have %s:\n%s", name, want, texts[name])
			}
		}
	}
}

// What leads nowhere, or would be lost, is an error, and nothing is written.
func TestRefuses(t *testing.T) {
	t.Parallel()
	const menu = "\n## Read on\n\n| [a](a.md) |\n|---|\n"
	for want, text := range map[string]string{
		"README.md: link to b.md":     "# Top\n[b](b.md)\n" + menu,
		"README.md: show p.png":       "# Top\n![p](p.png)\n" + menu,
		"is shown from elsewhere":     "# Top\n<img src=\"https://example.test/p.png\">\n" + menu,
		"no heading of the first":     "## Top\n" + menu,
		"no table of documents below": "# Top\n[a](a.md)\n",
	} {
		if _, err := read(fstest.MapFS{"README.md": {Data: []byte(text)}, "a.md": {Data: []byte("# A\n")}}, repository); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
	s, err := read(fstest.MapFS{"README.md": {Data: []byte("# Top\n" + menu)}, "a.md": {Data: []byte("# A\n")}}, repository)
	if err != nil {
		t.Fatal(err)
	}
	mine := filepath.Join(t.TempDir(), "mine")
	if err := os.WriteFile(mine, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.write(filepath.Dir(mine)); err == nil || !strings.Contains(err.Error(), "-out") {
		t.Errorf("over what is no site: %v", err)
	}
	if _, err := os.Stat(mine); err != nil {
		t.Error(err)
	}
}
