// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"crypto/sha256"
	"encoding/hex"
	"html/template"
	"slices"
	"strings"
	"sync"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/ui/view"
)

// slot is where the items of a block stand in its frame. No text of a cluster looks like it: that is escaped.
const slot = "<!--items-->"

// piece is HTML that replaces the element with its ID.
type piece struct {
	ID   string `json:"id"`
	HTML string `json:"html"`
}

// block is a part of the page: a frame, and items in it that change alone.
type block struct {
	id, frame string
	items     []piece
}

// HTML is the block whole.
func (b block) HTML() template.HTML {
	var items strings.Builder
	for _, i := range b.items {
		items.WriteString(i.HTML)
	}
	return template.HTML(strings.Replace(b.frame, slot, items.String(), 1)) //nolint:gosec // made of what html/template made
}

// sheet is a page of one filter, in blocks by name, as a browser has it.
type sheet map[string]block

// maxSheets of one model are kept: one for each that somebody filters by.
const maxSheets = 64

// sheets renders a model once for all who look at it in the same way, and one after the other for others: of hundreds of clusters that takes a
// good part of a second. It is safe for use by several goroutines.
type sheets struct {
	press *press

	mu    sync.Mutex
	model *view.Model
	made  map[view.Filter]rendered
}

// rendered is a sheet and its tag.
type rendered struct {
	sheet
	named string
}

func (s *sheets) of(m *view.Model, f view.Filter) (rendered, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.model != m || len(s.made) >= maxSheets {
		s.model, s.made = m, map[view.Filter]rendered{}
	}
	if r, ok := s.made[f]; ok {
		return r, nil
	}
	now, err := s.press.sheetOf(m, f)
	if err != nil {
		return rendered{}, err
	}
	s.made[f] = rendered{now, now.tag()}
	return s.made[f], nil
}

// sheetOf renders a model.
func (p *press) sheetOf(m *view.Model, f view.Filter) (sheet, error) {
	out := sheet{}
	add := func(id string, data any, items ...piece) error {
		frame, err := p.render(id, data)
		out[id] = block{id, frame, items}
		return err
	}
	if err := add("summary", m); err != nil {
		return nil, err
	}
	if err := add("waiting", m.Waiting); err != nil {
		return nil, err
	}
	if err := p.addMesh(m.Mesh, add); err != nil {
		return nil, err
	}
	return out, p.addMatrix(m, f, add)
}

func (p *press) addMesh(m *view.Mesh, add func(string, any, ...piece) error) error {
	var items []piece
	for i := range m.Between {
		html, err := p.render("between", &m.Between[i])
		if err != nil {
			return err
		}
		items = append(items, piece{m.Between[i].ID, html})
	}
	for i := range m.Dots {
		html, err := p.render("dot", &m.Dots[i])
		if err != nil {
			return err
		}
		items = append(items, piece{m.Dots[i].ID, html})
	}
	if err := add("unhealthy", m.Unhealthy); err != nil {
		return err
	}
	return add("mesh", struct {
		*view.Mesh
		Slot template.HTML
	}{m, slot}, items...)
}

// addMatrix adds the matrix. Its heads are an item as its rows are, for a rule that has a problem turns red there.
func (p *press) addMatrix(m *view.Model, f view.Filter, add func(string, any, ...piece) error) error {
	shown, note := m.Matrix.Cut(f)
	heads, err := p.render("heads", shown.Columns)
	if err != nil {
		return err
	}
	items := []piece{{"heads", heads}}
	for i := range shown.Rows {
		html, err := p.render("row", &shown.Rows[i])
		if err != nil {
			return err
		}
		items = append(items, piece{shown.Rows[i].ID, html})
	}
	return add("matrix", struct {
		Note        string
		Many, Empty bool
		Slot        template.HTML
	}{note, len(shown.Columns) > 9, len(shown.Rows) == 0, slot}, items...)
}

// tag tells one sheet from another.
func (s sheet) tag() string {
	sum := sha256.New()
	for _, id := range s.names() {
		sum.Write([]byte(s[id].HTML()))
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

func (s sheet) names() []string {
	var out []string
	for id := range s {
		out = append(out, id)
	}
	slices.Sort(out)
	return out
}
