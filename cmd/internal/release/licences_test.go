// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestThirdParty(t *testing.T) {
	t.Parallel()
	r := newRelease(t)
	b, err := r.binary("agent", imagePlatforms()[0])
	if err != nil {
		t.Fatal(err)
	}
	got, err := r.thirdParty(b, b)
	if err != nil {
		t.Fatal(err)
	}
	line := strings.Repeat("=", 80)
	want := strings.Join([]string{
		"What these programs were built from, beside Roster itself, and the terms of each.\n", line,
		"example.com/A_b v1.0.0+incompatible: LICENCE.md", "example.com/fork v2.0.0: COPYING", "", "shared terms\n", line,
		"example.com/fork v2.0.0: inner/NOTICE", "", "a notice\n", line,
		"stdlib 1.26.8: LICENSE", "", "Go's terms\n",
	}, "\n")
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
	if err := os.RemoveAll(filepath.Join(r.modules, "example.com/fork@v2.0.0")); err != nil {
		t.Fatal(err)
	}
	if _, err := r.thirdParty(b); !errors.Is(err, errLicence) || !strings.Contains(err.Error(), "go mod download") {
		t.Errorf("a module that is not there: %v", err)
	}
	if err := os.MkdirAll(filepath.Join(r.modules, "example.com/fork@v2.0.0"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := r.thirdParty(b); !errors.Is(err, errLicence) || !strings.Contains(err.Error(), "example.com/fork v2.0.0") {
		t.Errorf("a module without a licence: %v", err)
	}
}

const mit = `Copyright (c) 2026 Somebody

Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated documentation files
(the "Software"), to deal in the Software without restriction, including without limitation the rights to use, copy, modify, merge,
publish, distribute, sublicense, and/or sell copies of the Software, and to permit persons to whom the Software is furnished to do
so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF
MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE
FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN
CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
`

// commonsClause has a name among licences, and none in SPDX.
const commonsClause = `
The Software is provided to you by the Licensor under the License, as defined below, subject to the following condition. Without
limiting other conditions in the License, the grant of rights under the License will not include, and the License does not grant to
you, the right to Sell the Software. For purposes of the foregoing, "Sell" means practicing any or all of the rights granted to you
under the License to provide to third parties, for a fee or other consideration, a product or service that consists, entirely or
substantially, of the Software or the functionality of the Software. Any license notice or attribution required by the License must
also include this Commons Cause License Condition notice.
`

func TestDeclaredLicence(t *testing.T) {
	t.Parallel()
	apache, err := os.ReadFile("../../../LICENSE")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"one":                   {map[string]string{"LICENSE": mit}, "MIT"},
		"two files":             {map[string]string{"LICENSE-MIT": mit, "LICENSE-APACHE.txt": string(apache)}, "Apache-2.0 AND MIT"},
		"two in one file":       {map[string]string{"COPYING": mit + string(apache)}, "Apache-2.0 AND MIT"},
		"of a part":             {map[string]string{"LICENSE": mit, "inner/LICENSE": string(apache)}, "MIT"},
		"of a part alone":       {map[string]string{"inner/LICENSE": mit}, noAssertion},
		"a notice":              {map[string]string{"LICENSE": mit, "NOTICE": string(apache), "PATENTS": "none"}, "MIT"},
		"terms of its own":      {map[string]string{"LICENSE": "You may."}, noAssertion},
		"one that is not known": {map[string]string{"LICENSE": mit, "LICENSE.more": "You may."}, noAssertion},
		"more terms":            {map[string]string{"LICENSE": mit + strings.Repeat("You shall not use it for anything. ", 20)}, noAssertion},
		"a name not in SPDX":    {map[string]string{"LICENSE": mit + commonsClause}, noAssertion},
	} {
		r := &release{modules: t.TempDir()}
		for file, text := range c.files {
			path := filepath.Join(r.modules, "example.com/a@v1.0.0", file)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		got, err := r.declaredLicence(&debug.Module{Path: "example.com/a", Version: "v1.0.0"})
		if err != nil || got != c.want {
			t.Errorf("%s: %q, %v, want %q", name, got, err, c.want)
		}
	}
}
