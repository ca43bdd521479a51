// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestAtHome: the tests that make e2e-home runs exist, since one that gets another name would be in the longer lane of make test again; and
// no other package that make e2e-beside-home runs has one of that name, which it would leave out.
func TestAtHome(t *testing.T) {
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^AT_HOME = \^Test\((.*)\)\$\$$`).FindSubmatch(makefile)
	if found == nil {
		t.Fatal("the Makefile has no AT_HOME")
	}
	tests := partsOfTests(t)
	var elsewhere []byte
	for _, pattern := range []string{"*/*_test.go", "*/*/*_test.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.HasPrefix(file, "pods/") { // of another lane
				continue
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			elsewhere = append(elsewhere, text...)
		}
	}
	for name := range strings.SplitSeq(string(found[1]), "|") {
		if _, ok := tests["Test"+name]; !ok {
			t.Errorf("AT_HOME of the Makefile has Test%s, and there is no such test", name)
		}
		if bytes.Contains(elsewhere, []byte("\nfunc Test"+name+"(")) {
			t.Errorf("Test%s of another package is left out, too", name)
		}
	}
}
