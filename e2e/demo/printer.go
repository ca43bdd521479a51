// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// printer lays the story out. With colour, what a user types is bold and what was observed is green;
// without, it is the same text.
type printer struct {
	mu     sync.Mutex
	w      io.Writer
	colour bool
	steps  int
}

const (
	bold  = "1"
	green = "32"
	dim   = "2"
)

func (p *printer) paint(code, text string) string {
	if !p.colour {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (p *printer) printf(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.w, format, args...)
}

// step opens a numbered step.
func (p *printer) step(title string) {
	p.steps++
	head := fmt.Sprintf("%d. %s ", p.steps, title)
	p.printf("\n%s%s\n", p.paint(bold, head), p.paint(dim, strings.Repeat("-", max(3, 92-len(head)))))
}

// say explains.
func (p *printer) say(format string, args ...any) {
	p.printf("   %s\n", fmt.Sprintf(format, args...))
}

// command is what a user would type, as it can be pasted: what a shell reads as text stands at the start of its line.
func (p *printer) command(line, stdin string) {
	p.printf("%s\n", p.paint(bold, "   $ "+strings.ReplaceAll(line, "\n", "\n     ")+heredoc(stdin)))
}

func heredoc(text string) string {
	if text == "" {
		return ""
	}
	return " <<'END'\n" + strings.TrimSpace(text) + "\nEND"
}

// output is what came back.
func (p *printer) output(text string) {
	for line := range strings.Lines(strings.TrimRight(text, "\n")) {
		p.printf("     %s\n", strings.TrimRight(line, "\n"))
	}
}

// saw is something that was observed, and how long after its cause.
func (p *printer) saw(took time.Duration, format string, args ...any) {
	p.printf("   %s %s\n", p.paint(green, fmt.Sprintf("ok %8s", human(took))), fmt.Sprintf(format, args...))
}

// human shows a duration with the precision that it was measured with.
func human(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%d ms", max(0, d.Milliseconds()))
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}
