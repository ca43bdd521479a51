// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestAtHome: the tests that make e2e-home runs exist. One that gets another name would be in the longer lane of make test again.
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
	for name := range strings.SplitSeq(string(found[1]), "|") {
		if _, ok := tests["Test"+name]; !ok {
			t.Errorf("AT_HOME of the Makefile has Test%s, and there is no such test", name)
		}
	}
}
