// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"html/template"
	"io/fs"
	"net/url"
	"path"
	"regexp"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"

	"github.com/roster-mesh/roster/cmd/internal/doclinks/headings"
)

// markdown is what GitHub understands; HTML in it is ours.
func markdown() goldmark.Markdown {
	return goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithParserOptions(parser.WithAutoHeadingID()), goldmark.WithRendererOptions(html.WithUnsafe()))
}

// names are the anchors of a document.
type names map[string]bool

// Generate names a heading.
func (n names) Generate(title []byte, _ ast.NodeKind) []byte {
	return []byte(headings.Name(string(title), n))
}

// Put reserves an anchor.
func (n names) Put(anchor []byte) { n[string(anchor)] = true }

// render makes a page of a document: its links lead to pages, or to the repository.
func (s *site) render(document string, source []byte) (*page, error) {
	p := &page{document: document}
	md := markdown()
	tree := md.Parser().Parse(text.NewReader(source), parser.WithContext(parser.NewContext(parser.WithIDs(names{}))))
	below := "" // which heading
	err := ast.Walk(tree, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		var err error
		switch n := n.(type) {
		case *ast.Heading:
			below = p.heading(n, source)
		case *ast.Link:
			n.Destination, err = s.link(p, string(n.Destination), below)
		case *ast.Image:
			err = s.show(document, string(n.Destination))
		case *ast.RawHTML:
			err = s.pictures(document, string(n.Segments.Value(source)))
		case *ast.HTMLBlock:
			err = s.pictures(document, string(n.Lines().Value(source)))
		}
		return ast.WalkContinue, err
	})
	if err != nil {
		return nil, err
	}
	if p.title == "" {
		return nil, fmt.Errorf("it has no heading of the first level")
	}
	var out bytes.Buffer
	if err := md.Renderer().Render(&out, source, tree); err != nil {
		return nil, err
	}
	p.body = template.HTML(out.String()) //nolint:gosec // made of this repository's documents
	return p, nil
}

// heading takes a heading's text, and returns its anchor.
func (p *page) heading(n *ast.Heading, source []byte) string {
	title := words(n, source)
	id, _ := n.AttributeString("id")
	anchor, _ := id.([]byte)
	switch {
	case n.Level == 1 && p.title == "":
		p.title = title
	case n.Level == 2:
		p.sections = append(p.sections, section{string(anchor), title})
	}
	return string(anchor)
}

// words is the text of a node without its marks.
func words(n ast.Node, source []byte) string {
	var out strings.Builder
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		if t, ok := c.(*ast.Text); ok {
			out.Write(t.Segment.Value(source))
		} else {
			out.WriteString(words(c, source))
		}
	}
	return out.String()
}

// link returns where a link of a page leads: to another page, to what this page shows, or out of the site.
func (s *site) link(p *page, target, below string) ([]byte, error) {
	to, anchor, _ := strings.Cut(target, "#")
	if to == "" || isElsewhere(to) {
		return []byte(target), nil
	}
	name := path.Join(path.Dir(p.document), to)
	info, err := fs.Stat(s.files, name)
	if err != nil {
		return nil, fmt.Errorf("link to %s: %w", target, err)
	}
	switch readme := path.Join(name, path.Base(start)); {
	case path.Ext(name) == ".md":
	case !info.IsDir():
		return []byte(s.source + "/" + name), nil
	case s.has(readme):
		name = readme
	case !s.has(name + "/*.md"):
		return []byte(s.source + "/" + name), nil
	}
	p.leads = append(p.leads, name)
	if p.document == start && below == menuFrom {
		p.menu = append(p.menu, name)
	}
	out := from(p.document, place(name))
	if anchor != "" {
		out += "#" + anchor
	}
	return []byte(out), nil
}

func (s *site) has(pattern string) bool {
	found, err := fs.Glob(s.files, pattern)
	return err == nil && len(found) > 0
}

func isElsewhere(target string) bool {
	u, err := url.Parse(target)
	return err == nil && (u.Scheme != "" || u.Host != "")
}

var source = regexp.MustCompile(`\bsrc(?:set)?="([^" ]+)"`)

// pictures takes along what HTML in a document shows.
func (s *site) pictures(document, html string) error {
	for _, m := range source.FindAllStringSubmatch(html, -1) {
		if err := s.show(document, m[1]); err != nil {
			return err
		}
	}
	return nil
}

// show takes a picture along, to where the document's page looks for it.
func (s *site) show(document, target string) error {
	if isElsewhere(target) {
		return fmt.Errorf("%s is shown from elsewhere, which tells others who reads this", target)
	}
	name := path.Join(path.Dir(document), target)
	if _, err := fs.Stat(s.files, name); err != nil {
		return fmt.Errorf("show %s: %w", target, err)
	}
	s.shown[name] = true
	return nil
}
