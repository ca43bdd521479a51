// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/roster-mesh/roster/e2e/harness"
)

// leftOut are the tests, and the parts of tests, that do not run with ROSTER_E2E_KUBERNETES=standalone. All others do.
var leftOut = []struct{ test, reason string }{
	{"TestBadInput/clusterIP of a Service", "Services are not served"},
	{"TestBadInput/status", "it is the status of a Job, and Jobs are not served"},
	{"TestBadInput/template of a Job", "Jobs are not served"},
	{"TestDemo", "it starts Kubernetes by itself; make demo-once plays the demo without"},
	{"TestDemoArchive", "it starts clusters by itself, of that kind"},
	{"TestHostedMember", "it makes a Service and a StatefulSet, which are not served"},
	{"TestHostedRegistry", "it makes a Service and a StatefulSet, which are not served"},
	{"TestHostedRegistryNeedsRights", "it makes a Service and a StatefulSet, which are not served"},
	{"TestMetadata", "provider and region are those of a Node, and Nodes are not served"},
	{"TestNoSecretsInBundle", "the log is that of a Pod, and Pods are not served"},
	{"TestRuleExamples/region-override.yaml", "the region is that of a Node, and Nodes are not served"},
}

// leaveOut has go test skip what is in leftOut, and says so, if standalone servers are asked for.
func leaveOut() error {
	if os.Getenv(harness.EnvKubernetes) != harness.Standalone {
		return nil
	}
	flag.Parse()
	skip := flag.Lookup("test.skip").Value
	var patterns []string
	if own := skip.String(); own != "" {
		patterns = append(patterns, own)
	}
	for _, out := range leftOut {
		fmt.Printf("left out with standalone servers: %s: %s\n", out.test, out.reason)
		patterns = append(patterns, pattern(out.test))
	}
	return skip.Set(strings.Join(patterns, "|"))
}

// pattern is what -skip takes for one test, or part of one.
func pattern(test string) string {
	parts := strings.Split(strings.ReplaceAll(test, " ", "_"), "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	return strings.Join(parts, "/")
}

// TestLeftOut: what is left out exists. A test that gets another name would be run, and its line in the list would be about
// nothing. (make e2e-standalone runs this first, which shows the list.)
func TestLeftOut(t *testing.T) {
	parts := partsOfTests(t)
	for _, out := range leftOut {
		test, part, partly := strings.Cut(out.test, "/")
		switch names, found := parts[test]; {
		case !found:
			t.Errorf("there is no %s", test)
		case partly && !slices.Contains(names, part):
			t.Errorf("%s has no part %q, only %q", test, part, names)
		case out.reason == "":
			t.Errorf("%s has no reason", out.test)
		}
	}
}

// partsOfTests returns the tests of this package, and of each the parts whose names are in its code.
func partsOfTests(t *testing.T) map[string][]string {
	t.Helper()
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	parts := map[string][]string{}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range parsed.Decls {
			if test, ok := decl.(*ast.FuncDecl); ok && strings.HasPrefix(test.Name.Name, "Test") {
				parts[test.Name.Name] = namesOfParts(test)
			}
		}
	}
	return parts
}

// namesOfParts returns the names in t.Run("name", ...).
func namesOfParts(test *ast.FuncDecl) (names []string) {
	ast.Inspect(test, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		run, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || run.Sel.Name != "Run" {
			return true
		}
		if name, ok := call.Args[0].(*ast.BasicLit); ok {
			plain, err := strconv.Unquote(name.Value)
			if err == nil {
				names = append(names, plain)
			}
		}
		return true
	})
	return names
}
