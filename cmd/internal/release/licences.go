// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"unicode"

	"github.com/github/go-spdx/v2/spdxexp"
	"github.com/google/licensecheck"
)

// errLicence is returned when a module comes without the text that it may be passed on with.
var errLicence = errors.New("licence")

// licenceFile is the name of a file that has to be passed on with a program, as the modules of Go have them.
var licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|copyright|notice|patents|unlicense)([-._].*)?$`)

// termsFile is the name of one of them that says on which terms its own module is passed on: a notice does not, and a patent grant
// comes on top.
var termsFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|unlicense)([-._].*)?$`)

// minTerms is how much of a text, in percent, must be the words of known licences. What is left is who holds the copyright.
const minTerms = 75

// thirdParty is every licence, and every notice, of what the binaries were linked from: one text once, with the modules
// that it came from. What a module has for its own tests is left out; of the rest it may be more than was linked.
func (r *release) thirdParty(binaries ...*binary) ([]byte, error) {
	modules := map[string]*debug.Module{}
	for _, b := range binaries {
		for _, m := range dependencies(b.info) {
			modules[m.Path+" "+m.Version] = m
		}
	}
	var order []string
	from := map[string][]string{} // by text
	for _, name := range slices.Sorted(maps.Keys(modules)) {
		texts, err := r.licencesOf(modules[name])
		if err != nil {
			return nil, err
		}
		for _, file := range slices.Sorted(maps.Keys(texts)) {
			text := texts[file]
			if from[text] == nil {
				order = append(order, text)
			}
			from[text] = append(from[text], name+": "+file)
		}
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "What these programs were built from, beside Roster itself, and the terms of each.\n")
	for _, text := range order {
		fmt.Fprintf(&out, "\n%s\n%s\n\n%s\n", strings.Repeat("=", 80), strings.Join(from[text], "\n"), text)
	}
	return out.Bytes(), nil
}

// declaredLicence is on which terms a module is passed on, as an SPDX expression: those of all texts at its root. Two are joined
// by AND, for a text does not say whether one may choose. NOASSERTION if a text is not one that is known.
func (r *release) declaredLicence(m *debug.Module) (string, error) {
	texts, err := r.licencesOf(m)
	if err != nil {
		return "", err
	}
	var ids []string
	for file, text := range texts {
		if !termsFile.MatchString(file) {
			continue
		}
		found := licensecheck.Scan([]byte(text))
		if found.Percent < minTerms {
			return noAssertion, nil
		}
		for _, match := range found.Match {
			ids = append(ids, match.ID)
		}
	}
	slices.Sort(ids)
	expression := strings.Join(slices.Compact(ids), " AND ")
	// The names are SPDX's, but for some of licences that SPDX does not list.
	if valid, _ := spdxexp.ValidateLicenses([]string{expression}); !valid {
		return noAssertion, nil
	}
	return expression, nil
}

// licencesOf reads the texts of a module, by their paths in it, where the Go toolchain keeps its source.
func (r *release) licencesOf(m *debug.Module) (map[string]string, error) {
	root := filepath.Join(r.modules, escape(m.Path)+"@"+escape(m.Version))
	if m.Path == stdlib {
		root = r.goroot
	}
	texts := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			// Of the toolchain only the library is in the programs; what it has taken over comes under its own licence.
			if d.Name() == "testdata" || m.Path == stdlib && path != root {
				return filepath.SkipDir
			}
			return nil
		}
		if !licenceFile.MatchString(d.Name()) || strings.HasSuffix(d.Name(), ".go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		texts[filepath.ToSlash(name)] = strings.TrimSpace(strings.ReplaceAll(string(text), "\r\n", "\n"))
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: the source of %s %s is not in %s: run go mod download", errLicence, m.Path, m.Version, root)
	}
	if err == nil && len(texts) == 0 {
		err = fmt.Errorf("%w: %s %s has none in %s; of Go itself, take the one from go.dev", errLicence, m.Path, m.Version, root)
	}
	return texts, err
}

// escape is how the module cache spells a path or a version, so that it does not depend on upper and lower case.
func escape(name string) string {
	var b strings.Builder
	for _, c := range name {
		if unicode.IsUpper(c) {
			b.WriteByte('!')
		}
		b.WriteRune(unicode.ToLower(c))
	}
	return b.String()
}
