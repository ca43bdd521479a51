// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"strings"
	"unicode"
)

//go:embed assets
var assets embed.FS

// press makes HTML. It is safe for use by several goroutines.
type press struct{ templates *template.Template }

func newPress() *press {
	return &press{template.Must(template.ParseFS(assets, "assets/*.html"))}
}

// render is one template as HTML. Names and messages come from other clusters: html/template escapes them, and what is left
// that could hide or turn text around becomes visible here, wherever it stands.
func (p *press) render(name string, data any) (string, error) {
	var out strings.Builder
	if err := p.templates.ExecuteTemplate(&out, name, data); err != nil {
		return "", fmt.Errorf("render %s: %w", name, err)
	}
	return visible(out.String()), nil
}

// visible writes what is neither printable nor a line's end or a tab as its number.
func visible(text string) string {
	var out strings.Builder
	out.Grow(len(text))
	for _, r := range text {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) {
			out.WriteRune(r)
		} else {
			fmt.Fprintf(&out, "⟨U+%04X⟩", r)
		}
	}
	return out.String()
}

// answer sends one template as a page.
func (p *press) answer(w http.ResponseWriter, code int, name string, data any) {
	page, err := p.render(name, data)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write([]byte(page)) // the browser may be gone
}
