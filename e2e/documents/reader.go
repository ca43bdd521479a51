// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package documents

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// Reader is somebody who types what the documents say, with other words where this place is different. It records what it gives out,
// together with all readers that With made of it. Several goroutines may use one.
type Reader struct {
	root  string    // of the checkout
	here  []string  // words of the documents, each followed by what is there in its place here
	typed *sync.Map // DOCUMENT: COMMAND
}

// NewReader is one who has typed nothing yet.
func NewReader(root string) *Reader { return &Reader{root: root, typed: &sync.Map{}} }

// With is the same reader in a place where words, each followed by another one, are different. All of them must be in whatever is
// typed there: if one is not, the document has changed.
func (r *Reader) With(words ...string) *Reader {
	return &Reader{root: r.root, here: slices.Concat(words, r.here), typed: r.typed}
}

// Lines are commands of a document, each named by how it begins.
func (r *Reader) Lines(document string, begins ...string) (string, error) {
	var lines []string
	for _, b := range begins {
		line, err := command(filepath.Join(r.root, document), b)
		if err != nil {
			return "", err
		}
		r.typed.Store(document+": "+line, true)
		lines = append(lines, line)
	}
	return r.replace(strings.Join(lines, "\n"))
}

// Block is the first block of a language that holds a text, below a heading. Its commands count as typed.
func (r *Reader) Block(document, heading, language, text string) (string, error) {
	all, err := Blocks(filepath.Join(r.root, document), heading)
	if err != nil {
		return "", err
	}
	for _, b := range all {
		if b.Language == language && strings.Contains(b.Text, text) {
			for _, line := range b.Commands {
				r.typed.Store(document+": "+line, true)
			}
			return r.replace(b.Text)
		}
	}
	return "", fmt.Errorf("%q of %s has no %s block with %q: does a test of its commands have to change?", heading, document, language, text)
}

func (r *Reader) replace(text string) (string, error) {
	for i := 0; i < len(r.here); i += 2 {
		if !strings.Contains(text, r.here[i]) {
			return "", fmt.Errorf("%q has a word for this place, and is not in %q: does a test of the commands have to change?", r.here[i], text)
		}
	}
	return strings.NewReplacer(r.here...).Replace(text), nil
}

// Untyped is an error when a test, FOLDER.TEST of list.go, has not typed all commands that are listed for it. It is the end of each.
func (r *Reader) Untyped(test string) error {
	var errs []error
	listed := 0
	for _, d := range All() {
		for _, begins := range d.Typed[test] {
			listed++
			line, err := command(filepath.Join(r.root, d.Path), begins)
			if _, typed := r.typed.Load(d.Path + ": " + line); err == nil && !typed {
				err = fmt.Errorf("%s: it did not type %s", d.Path, line)
			}
			errs = append(errs, err)
		}
	}
	if listed == 0 {
		errs = append(errs, errors.New("list.go has nothing for "+test))
	}
	return errors.Join(errs...)
}

// Prints is a condition: a shell runs the lines, and they print these texts.
func Prints(shell func(ctx context.Context, lines string) (string, error), lines string, texts ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		out, err := shell(ctx, lines)
		if err != nil {
			return fmt.Errorf("%s: %w\n%s", lines, err, out)
		}
		for _, text := range texts {
			if !strings.Contains(out, text) {
				return fmt.Errorf("%s does not print %q:\n%s", lines, text, out)
			}
		}
		return nil
	}
}

// command is the one command of a document that is, or else begins like, this.
func command(path, begins string) (string, error) {
	all, err := Blocks(path, "")
	if err != nil {
		return "", err
	}
	var found string
	for _, b := range all {
		for _, c := range b.Commands {
			switch {
			case c == begins:
				return c, nil
			case !strings.HasPrefix(c, begins) || c == found:
			case found != "":
				return "", fmt.Errorf("%s has several commands that begin with %q", filepath.Base(path), begins)
			default:
				found = c
			}
		}
	}
	if found == "" {
		return "", fmt.Errorf("%s has no command that begins with %q: does a test of its commands have to change?", filepath.Base(path), begins)
	}
	return found, nil
}
