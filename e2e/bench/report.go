// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"
)

// report is everything that a run found out.
type report struct {
	Began   time.Time `json:"began"`
	Seconds float64   `json:"seconds"`
	Machine string    `json:"machine"`
	Figures []figure  `json:"figures"`
}

// figure is one value, with what DESIGN section 11 allows where it says something.
type figure struct {
	Clusters int     `json:"clusters"`
	Name     string  `json:"name"`
	Value    float64 `json:"value"`
	Unit     string  `json:"unit"`
	Budget   *budget `json:"budget,omitempty"`
	Verdict  string  `json:"verdict,omitempty"` // PASS or MISS where there is a budget
	Note     string  `json:"note,omitempty"`
}

// budget is a bound that the value may reach.
type budget struct {
	Bound   float64 `json:"bound"`
	AtLeast bool    `json:"atLeast,omitempty"` // else at most
}

func atMost(v float64) *budget  { return &budget{Bound: v} }
func atLeast(v float64) *budget { return &budget{Bound: v, AtLeast: true} }

func (b *budget) met(v float64) bool {
	if b.AtLeast {
		return v >= b.Bound
	}
	return v <= b.Bound
}

func (b *budget) String() string {
	if b == nil {
		return ""
	}
	if b.AtLeast {
		return fmt.Sprintf("≥ %g", b.Bound)
	}
	return fmt.Sprintf("≤ %g", b.Bound)
}

// add takes a figure in; a nil budget makes it information.
func (r *report) add(clusters int, name string, value float64, unit string, b *budget, note string) {
	f := figure{Clusters: clusters, Name: name, Value: value, Unit: unit, Budget: b, Note: note}
	if b != nil {
		f.Verdict = "MISS"
		if b.met(value) {
			f.Verdict = "PASS"
		}
	}
	r.Figures = append(r.Figures, f)
}

func (r *report) missed() int { return r.count(func(f figure) bool { return f.Verdict == "MISS" }) }
func (r *report) judged() int { return r.count(func(f figure) bool { return f.Budget != nil }) }

func (r *report) count(which func(figure) bool) int {
	n := 0
	for _, f := range r.Figures {
		if which(f) {
			n++
		}
	}
	return n
}

func (r *report) print(out io.Writer) error {
	fmt.Fprintf(out, "%s; %.0f s\n\n", r.Machine, r.Seconds)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "clusters\tfigure\tvalue\t\tbudget\t\tnote\n")
	for _, f := range r.Figures {
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%s\t%s\n", f.Clusters, f.Name, number(f.Value), f.Unit, f.Budget, f.Verdict, f.Note)
	}
	return w.Flush()
}

// number has three significant digits, and whole thousands.
func number(v float64) string {
	switch {
	case v >= 100 || v == float64(int(v)):
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

func (r *report) write(file string) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(data, '\n'), 0o644) //nolint:gosec // Figures are no secret.
}
