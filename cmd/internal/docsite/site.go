// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

const (
	start    = "README.md"
	menuFrom = "read-on" // the heading in start above the table that the menu is made of
)

var (
	//go:embed page.html
	layout string
	//go:embed site.css
	style []byte
)

// site is all pages and the files that they show.
type site struct {
	files  fs.FS
	source string // URL of the repository's files

	pages map[string]*page // by the path of the document
	shown map[string]bool  // paths of pictures
	menu  []string         // paths of documents
}

// page is a document.
type page struct {
	document string // its path in the repository; that of a folder, if it lists what lies there
	title    string
	sections []section
	body     template.HTML
	leads    []string // documents and folders that it links to, in its order
	menu     []string // those of them below menuFrom
}

// section is a heading of the second level.
type section struct{ Anchor, Title string }

// read makes pages of start and of everything that it leads to, which must be there.
func read(files fs.FS, source string) (*site, error) {
	s := &site{files: files, source: strings.TrimSuffix(source, "/"), pages: map[string]*page{}, shown: map[string]bool{}}
	for next := []string{start}; len(next) > 0; {
		document := next[0]
		next = next[1:]
		if s.pages[document] != nil {
			continue
		}
		p, err := s.page(document)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", document, err)
		}
		s.pages[document] = p
		next = append(next, p.leads...)
	}
	s.menu = s.pages[start].menu
	if len(s.menu) == 0 {
		return nil, fmt.Errorf("%s has no table of documents below the heading #%s", start, menuFrom)
	}
	return s, nil
}

// page makes one of a document, or a list of a folder's documents.
func (s *site) page(document string) (*page, error) {
	if path.Ext(document) == ".md" {
		text, err := fs.ReadFile(s.files, document)
		if err != nil {
			return nil, err
		}
		return s.render(document, text)
	}
	all, err := fs.Glob(s.files, document+"/*.md")
	if err != nil {
		return nil, err
	}
	name := path.Base(document)
	text := fmt.Appendf(nil, "# %s\n\n", strings.ToUpper(name[:1])+name[1:])
	for _, one := range all {
		p, err := s.page(one)
		if err != nil {
			return nil, err
		}
		text = fmt.Appendf(text, "- [%s](%s)\n", p.title, path.Base(one))
	}
	// Its links are relative to what lies in it.
	p, err := s.render(document+"/"+path.Base(start), text)
	if err == nil {
		p.document = document
	}
	return p, err
}

// place is where the page of a document lies: README.md, and what lists a folder, is the index of its folder.
func place(document string) string {
	switch {
	case path.Ext(document) != ".md":
		return document + "/index.html"
	case path.Base(document) == path.Base(start):
		return path.Join(path.Dir(document), "index.html")
	}
	return strings.TrimSuffix(document, ".md") + ".html"
}

// from is how a page links to a path of the site.
func from(document, to string) string {
	up := strings.Count(place(document), "/")
	return strings.Repeat("../", up) + to
}

// write puts the site into a directory, which it replaces.
func (s *site) write(dir string) error {
	if err := replaceable(dir); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	look, err := template.New("page").Parse(layout)
	if err != nil {
		return err
	}
	out := map[string][]byte{"site.css": style}
	for document, p := range s.pages {
		var text bytes.Buffer
		if err := look.Execute(&text, s.view(p)); err != nil {
			return err
		}
		out[place(document)] = text.Bytes()
	}
	for picture := range s.shown {
		data, err := fs.ReadFile(s.files, picture)
		if err != nil {
			return err
		}
		out[picture] = data
	}
	for _, name := range slices.Sorted(maps.Keys(out)) {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, out[name], 0o644)); err != nil { //nolint:gosec // a web server reads them
			return err
		}
	}
	return nil
}

// replaceable says no to a directory that this program has not written.
func replaceable(dir string) error {
	all, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(all) == 0 {
		return nil
	}
	if _, site := os.Stat(filepath.Join(dir, "site.css")); err == nil && site != nil {
		err = fmt.Errorf("-out %s holds something else than a site; name an empty directory", dir)
	}
	return err
}

// view is what the template shows.
type view struct {
	Title, Home, Style, Source string
	Menu                       []entry
	Sections                   []section
	Body                       template.HTML
}

// entry is a line of the menu.
type entry struct {
	Title, To string
	Here      bool
}

func (s *site) view(p *page) view {
	v := view{
		Title: p.title, Home: from(p.document, place(start)), Style: from(p.document, "site.css"), Source: s.source + "/" + p.document,
		Sections: p.sections, Body: p.body,
	}
	for _, document := range s.menu {
		v.Menu = append(v.Menu, entry{
			Title: s.pages[document].title, To: from(p.document, place(document)),
			Here: document == p.document || path.Dir(p.document) == document,
		})
	}
	return v
}
