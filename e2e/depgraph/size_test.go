// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package depgraph

import (
	"bytes"
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	maxFields = 12   // of a struct that holds a lock
	maxLines  = 1500 // of a package, without tests and generated code
)

// structsAbove are the structs with more fields than maxFields that hold a lock, with their fields. The list only becomes
// shorter and its numbers smaller: what does not fit is two things, and the second gets a struct of its own.
func structsAbove() map[string]int {
	return map[string]int{
		"kube.feed":               21,
		"mesh.Front":              14,
		"mesh.Mesh":               20,
		"mesh.transport":          13,
		"replica.Replica":         14,
		"replica/journal.Journal": 22,
		"syncrules/engine.Engine": 16,
		"syncrules/engine.feed":   14,
	}
}

// packagesAbove are the packages with more lines than maxLines, with their lines rounded up to a hundred. The list only
// becomes shorter and its numbers smaller: what does not fit is a package of its own.
func packagesAbove() map[string]int {
	return map[string]int{
		"cmd/agentctl/internal/doctor":        1800,
		"cmd/agentctl/internal/rules/explain": 1900,
		"kube":                                3700,
		"mesh":                                5500,
		"replica":                             3900,
		"replica/journal":                     2300,
		"syncrules":                           4700,
		"syncrules/engine":                    5800,
	}
}

// A struct with a lock has few fields: each of them is one more thing that every holder of the lock must think of.
func TestStructsWithLocksAreSmall(t *testing.T) {
	t.Parallel()
	compare(t, structsWithLocks(t, list(t)), structsAbove(), maxFields, "fields")
}

// Somebody can read a package in an afternoon.
func TestPackagesAreSmall(t *testing.T) {
	t.Parallel()
	hundreds := linesOfPackages(t, list(t))
	for name, lines := range hundreds { // a line more or less must not change the list
		hundreds[name] = (lines + 99) / 100 * 100
	}
	compare(t, hundreds, packagesAbove(), maxLines, "lines")
}

// The figures by which changes of the shape are compared; go test -v prints them.
func TestFigures(t *testing.T) {
	t.Parallel()
	packages := list(t)
	name, fields := largest(structsWithLocks(t, packages))
	t.Logf("largest struct that holds a lock: %s, %d fields", name, fields)
	name, lines := largest(linesOfPackages(t, packages))
	t.Logf("largest package: %s, %d lines", name, lines)
	between := importsBetweenParts(packages)
	t.Logf("imports between the parts of agent: %d (%s)", len(between), strings.Join(between, ", "))
}

// compare checks sizes against the limit, and against the exceptions from it.
func compare(t *testing.T, sizes, exceptions map[string]int, limit int, unit string) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		size := sizes[name]
		most, excepted := exceptions[name]
		switch {
		case !excepted && size > limit:
			t.Errorf("%s has %d %s; %d is most: make two of it", name, size, unit, limit)
		case excepted && size > most:
			t.Errorf("%s has %d %s, and had %d when its exception was made, which must not grow: make two of it", name, size, unit, most)
		case excepted && size <= limit:
			t.Errorf("%s has %d %s now: delete its exception", name, size, unit)
		case excepted && size < most:
			t.Errorf("%s has %d %s now: lower its exception from %d", name, size, unit, most)
		}
	}
	for name := range exceptions {
		if _, ok := sizes[name]; !ok {
			t.Errorf("there is no %s any more, or it holds no lock: delete its exception", name)
		}
	}
}

func largest(sizes map[string]int) (string, int) {
	var name string
	for _, n := range slices.Sorted(maps.Keys(sizes)) {
		if name == "" || sizes[n] > sizes[name] {
			name = n
		}
	}
	return name, sizes[name]
}

// sources returns the parsed files of a package, without tests and generated code, and their lines.
func sources(t *testing.T, p listed) (files []*ast.File, lines int) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(p.Dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, data, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if !ast.IsGenerated(file) {
			files = append(files, file)
			lines += bytes.Count(data, []byte("\n"))
		}
	}
	return files, lines
}

// limited are the packages that the limits are for, by their path in the module: all but those that only tests use.
func limited(packages []listed) map[string]listed {
	out := make(map[string]listed)
	for _, p := range packages {
		name, ok := strings.CutPrefix(p.ImportPath, module+"/")
		if ok && !strings.HasPrefix(name, "e2e/") && !strings.HasSuffix(name, "test") {
			out[name] = p
		}
	}
	return out
}

// linesOfPackages counts the lines of each package.
func linesOfPackages(t *testing.T, packages []listed) map[string]int {
	t.Helper()
	out := make(map[string]int)
	for name, p := range limited(packages) {
		_, out[name] = sources(t, p)
	}
	return out
}

// structsWithLocks returns the structs that hold a lock, PACKAGE.NAME, with their fields.
func structsWithLocks(t *testing.T, packages []listed) map[string]int {
	t.Helper()
	out := make(map[string]int)
	for name, p := range limited(packages) {
		files, _ := sources(t, p)
		for structName, fields := range countFields(files) {
			out[name+"."+structName] = fields
		}
	}
	return out
}

// countFields returns the structs of a package that hold a lock, with their fields.
func countFields(files []*ast.File) map[string]int {
	types := make(typesOfPackage)
	for _, file := range files {
		for _, decl := range file.Decls {
			d, ok := decl.(*ast.GenDecl)
			if !ok || d.Tok != token.TYPE {
				continue
			}
			for _, spec := range d.Specs {
				declared := spec.(*ast.TypeSpec)
				types[declared.Name.Name] = declared.Type
			}
		}
	}
	out := make(map[string]int)
	for name, expr := range types {
		if s, ok := expr.(*ast.StructType); ok && types.holdsLock(s) {
			out[name] = types.fields(s)
		}
	}
	return out
}

func TestCountFields(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]map[string]int{
		`type T struct { a, b int }`:                                                     {},
		`type T struct { mu sync.Mutex; a, b int }`:                                      {"T": 3},
		`type T struct { done chan struct{} }`:                                           {"T": 1},
		`type T struct { busy map[string]chan int; do func(chan int) }`:                  {"T": 2},
		`type T struct { do func(chan int); x interface { Wait(chan int) } }`:            {},
		`type T struct { n atomic.Int64 }; type A struct { t T; a int }`:                 {"T": 1, "A": 2},
		`type T[K any] struct { mu *sync.Mutex }; type A struct { t []T[int]; a int }`:   {"T": 1, "A": 2},
		`type T struct { at atomic.Pointer[int]; a, b int }; type A struct { t *T }`:     {"T": 3},
		`type T struct { mu sync.RWMutex; a, b int }; type A struct { *T; c int }`:       {"T": 3, "A": 4},
		`type T struct { mu sync.Mutex; in struct { a, b int }; *other.T; next *T }`:     {"T": 5},
		`type T []T; type wake chan int; type A struct { t T; n *other.N; wake, b wake}`: {"A": 4},
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "", "package p; "+source, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if got := countFields([]*ast.File{file}); !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", source, got, want)
		}
	}
}

// typesOfPackage are the types that a package declares, by name.
type typesOfPackage map[string]ast.Expr

// holdsLock says that a value of this type has a mutex, a channel, an atomic or another thing of package sync in it, itself
// or in a field whose type is of the same package. What it only points to is another's, unless it is embedded, or one of
// package sync.
func (types typesOfPackage) holdsLock(expr ast.Expr) bool {
	return types.holds(expr, make(map[string]bool))
}

func (types typesOfPackage) holds(expr ast.Expr, seen map[string]bool) bool {
	switch e := expr.(type) {
	case *ast.ChanType:
		return true
	case *ast.SelectorExpr: // of another package
		from, ok := e.X.(*ast.Ident)
		return ok && (from.Name == "sync" || from.Name == "atomic")
	case *ast.Ident:
		declared, ok := types[e.Name]
		if !ok || seen[e.Name] {
			return false
		}
		seen[e.Name] = true
		return types.holds(declared, seen)
	case *ast.StarExpr:
		_, elsewhere := unwrapped(e.X).(*ast.SelectorExpr)
		return elsewhere && types.holds(e.X, seen)
	case *ast.StructType:
		return slices.ContainsFunc(e.Fields.List, func(f *ast.Field) bool {
			if star, ok := f.Type.(*ast.StarExpr); ok && len(f.Names) == 0 {
				return types.holds(star.X, seen)
			}
			return types.holds(f.Type, seen)
		})
	case *ast.ArrayType:
		return types.holds(e.Elt, seen)
	case *ast.MapType:
		return types.holds(e.Value, seen)
	case *ast.IndexExpr, *ast.IndexListExpr, *ast.ParenExpr:
		return types.holds(unwrapped(e), seen)
	}
	return false // a function, an interface
}

// fields counts the fields of a struct, with those of a struct type without a name in it, and of a struct of the same
// package that it embeds.
func (types typesOfPackage) fields(s *ast.StructType) int {
	n := 0
	for _, f := range s.Fields.List {
		inner, flat := f.Type.(*ast.StructType)
		if len(f.Names) == 0 {
			inner, flat = types.embedded(f.Type)
		}
		if flat {
			n += types.fields(inner)
			continue
		}
		n += cmp.Or(len(f.Names), 1)
	}
	return n
}

// embedded returns the struct of this package that an embedded field is.
func (types typesOfPackage) embedded(expr ast.Expr) (*ast.StructType, bool) {
	if star, ok := expr.(*ast.StarExpr); ok {
		expr = star.X
	}
	name, ok := unwrapped(expr).(*ast.Ident)
	if !ok {
		return nil, false
	}
	s, ok := types[name.Name].(*ast.StructType)
	return s, ok
}

// unwrapped returns a generic type without its arguments, and a type without parentheses.
func unwrapped(expr ast.Expr) ast.Expr {
	switch e := expr.(type) {
	case *ast.IndexExpr:
		return unwrapped(e.X)
	case *ast.IndexListExpr:
		return unwrapped(e.X)
	case *ast.ParenExpr:
		return unwrapped(e.X)
	}
	return expr
}
