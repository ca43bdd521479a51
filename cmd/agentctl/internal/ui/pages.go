// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"net/http"
	"slices"
	"strings"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/ui/view"
)

// assetFiles are served to everybody who knows the path: the form for the token needs them.
func assetFiles() []string { return []string{"page.css", "page.js", "icon.svg"} }

func isAsset(path, below string) bool {
	name, found := strings.CutPrefix(path, below)
	return found && slices.Contains(assetFiles(), name)
}

// site is what is served below the path of the door.
type site struct {
	board   *board
	press   *press
	sheets  *sheets
	uses    Uses
	asked   Question      // what all questions have in common
	others  bool          // read the page, each with rights of their own
	streams chan struct{} // a place for each
	asking  chan struct{}
}

// pages serves the page and what belongs to it.
func pages(o *Options, b *board, p *press, below string) http.Handler {
	s := &site{board: b, press: p, sheets: &sheets{press: p}, uses: o.Uses, others: o.forOthers(), streams: make(chan struct{}, mostStreams), asking: make(chan struct{}, 1)}
	if s.others {
		s.streams, s.asking = make(chan struct{}, mostOfOthers), make(chan struct{}, asksOfOthers)
	}
	s.asked = Question{Access: o.Access, AgentNamespace: o.Namespace}
	if c := b.points[0].client; !c.InCluster {
		s.asked.Context = c.Context // the current one may change meanwhile
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+below+"{$}", s.page)
	mux.HandleFunc("GET "+below+"events", s.events)
	mux.HandleFunc("GET "+below+"why", s.why)
	for _, name := range assetFiles() {
		mux.HandleFunc("GET "+below+name, func(w http.ResponseWriter, r *http.Request) {
			http.ServeFileFS(w, r, assets, "assets/"+name)
		})
	}
	return mux
}

// maxName is how long a name may be, in bytes: RFC 1123.
const maxName = 253

func filterOf(r *http.Request) view.Filter {
	q := r.URL.Query()
	text := strings.TrimSpace(q.Get("q"))
	return view.Filter{Text: text[:min(len(text), maxName)], All: q.Get("all") != ""}
}

// pageData is what the template of the page takes.
type pageData struct {
	Model  *view.Model
	Sheet  sheet
	Tag    string
	Filter view.Filter
	Form   bool // that has the way out
}

// Ask is the form, empty.
func (d pageData) Ask() ask { return askAbout(d.Model, question{}) }

// page is the whole page as it is now.
func (s *site) page(w http.ResponseWriter, r *http.Request) {
	m, _ := s.board.now()
	f := filterOf(r)
	now, err := s.sheets.of(m, f)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	s.press.answer(w, http.StatusOK, "page", pageData{m, now.sheet, now.named, f, cameByForm(r)})
}
