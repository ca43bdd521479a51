// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package depgraph tests the shape of the code: that packages know only whom they may know, also by way of others, which
// the linter does not see; that the parts of agent do not know each other; and that structs with a lock, and packages,
// stay small. docs/development.md has the picture.
package depgraph

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/roster-mesh/roster"

// rule says what a package and everything that it imports may not be. A path stands for the package
// and for what is below it.
type rule struct {
	deny, allow []string // below module when they begin with "/"; the longest match decides
}

// rules maps a package to its rule; a trailing "/..." stands for the package and all below it.
func rules() map[string]rule {
	return map[string]rule{
		"kube/api/...":    {deny: []string{"/"}, allow: []string{"/kube/api"}},
		"kube":            {deny: []string{"/"}, allow: []string{"/kube"}},
		"kube/client/...": {deny: []string{"/"}, allow: []string{"/kube/api", "/kube/client"}},
		"kube/codec":      {deny: []string{"/"}, allow: []string{"/kube/codec"}},
		"kube/registry":   {deny: []string{"/", "k8s.io/client-go"}, allow: []string{"/kube/registry", "/kube/api"}},
		"kube/exported":   {deny: []string{"/"}, allow: []string{"/kube"}},
		"kube/history":    {deny: []string{"/"}, allow: []string{"/kube/history"}},
		"kube/offlocal":   {deny: []string{"/"}, allow: []string{"/kube/offlocal"}},
		"kube/pki":        {deny: []string{"/", "k8s.io"}, allow: []string{"/kube/pki"}},
		"replica/...":     {deny: []string{"/", "k8s.io", "sigs.k8s.io"}, allow: []string{"/replica"}},
		"mesh/...":        {deny: []string{"/", "k8s.io", "sigs.k8s.io"}, allow: []string{"/mesh"}},
		"syncrules": {
			deny:  []string{"/", "k8s.io/client-go"},
			allow: []string{"/syncrules", "/kube/api"},
		},
		"syncrules/packed":    {deny: []string{"/", "k8s.io/client-go"}, allow: []string{"/syncrules/packed"}},
		"syncrules/consent":   {deny: []string{"/", "k8s.io/client-go"}, allow: []string{"/syncrules/consent", "/syncrules/others", "/kube/api"}},
		"syncrules/skew":      {deny: []string{"/", "k8s.io/client-go"}, allow: []string{"/syncrules/skew", "/kube/api"}},
		"syncrules/where":     {deny: []string{"/", "k8s.io/client-go"}, allow: []string{"/syncrules/where", "/kube/api"}},
		"syncrules/fanout":    {deny: []string{"/", "k8s.io/client-go"}, allow: []string{"/syncrules/fanout", "/kube/api"}},
		"syncrules/how":       {deny: []string{"/", "k8s.io/client-go"}, allow: []string{"/syncrules/how", "/kube/api"}},
		"syncrules/others":    {deny: []string{"/", "k8s.io"}, allow: []string{"/syncrules/others"}},
		"syncrules/adopt":     {deny: []string{"/", "k8s.io/client-go"}, allow: []string{"/syncrules/adopt", "/syncrules/others", "/kube/api"}},
		"syncrules/drift":     {deny: []string{"/", "/syncrules/engine", "k8s.io/client-go"}, allow: []string{"/syncrules", "/kube/api"}},
		"syncrules/claimtest": {deny: []string{"/", "k8s.io/client-go"}, allow: []string{"/syncrules", "/kube/api"}},
		"syncrules/engine/...": {
			deny:  []string{"/", "k8s.io/client-go/kubernetes", "k8s.io/client-go/dynamic"},
			allow: []string{"/syncrules", "/kube/api"},
		},
		"agent/...":    {deny: []string{"/cmd", "/e2e"}},
		"agent/tuning": {deny: []string{"/", "k8s.io"}, allow: []string{"/agent/tuning"}},
		"charts/...":   {deny: []string{"/"}, allow: []string{"/charts"}},
		// What these bring, every kind of Kubernetes in several forms, doubles the memory of an idle agent.
		"cmd/agent": {
			deny: []string{
				"k8s.io/api", "k8s.io/client-go/kubernetes", "k8s.io/client-go/discovery", "k8s.io/client-go/gentype",
				"k8s.io/client-go/testing", "k8s.io/apimachinery/pkg/util/strategicpatch", "github.com/google/gnostic-models",
				"github.com/google/go-containerregistry",
				// An API server is a program of its own.
				"k8s.io/kubernetes", "k8s.io/apiserver", "go.etcd.io/etcd",
			},
		},
		"cmd/internal/...": {deny: []string{"/", "k8s.io"}, allow: []string{"/cmd/internal"}},
		// The same doubles the size of agentctl.
		"cmd/agentctl/...": {
			deny: []string{
				"/", "/syncrules/engine", "github.com/google/go-containerregistry",
				"k8s.io/api", "k8s.io/client-go/kubernetes", "k8s.io/client-go/discovery", "k8s.io/client-go/informers", "k8s.io/client-go/testing",
				"github.com/google/gnostic-models",
			},
			allow: []string{"/cmd/agentctl", "/kube", "/syncrules"},
		},
		// Its commands do not know each other: app.go joins them.
		"cmd/agentctl/internal/cli":           leafOfAgentctl(),
		"cmd/agentctl/internal/versions":      leafOfAgentctl(),
		"cmd/agentctl/internal/apitest":       leafOfAgentctl(),
		"cmd/agentctl/internal/clusters":      leafOfAgentctl("cli"),
		"cmd/agentctl/internal/byname":        leafOfAgentctl("cli", "clusters"),
		"cmd/agentctl/internal/confirmations": leafOfAgentctl("cli", "clusters"),
		"cmd/agentctl/internal/documents":     leafOfAgentctl("cli"),
		"cmd/agentctl/internal/fleet":         leafOfAgentctl("cli", "clusters"),
		"cmd/agentctl/internal/live":          leafOfAgentctl("cli", "clusters"),
		"cmd/agentctl/internal/rights":        leafOfAgentctl("cli", "clusters"),
		"cmd/agentctl/internal/accept":        commandOfAgentctl("accept"),
		"cmd/agentctl/internal/approve":       commandOfAgentctl("approve"),
		"cmd/agentctl/internal/bundle":        commandOfAgentctl("bundle"),
		"cmd/agentctl/internal/confirm":       commandOfAgentctl("confirm"),
		"cmd/agentctl/internal/credentials":   commandOfAgentctl("credentials"),
		"cmd/agentctl/internal/doctor/...":    commandOfAgentctl("doctor"),
		"cmd/agentctl/internal/export":        commandOfAgentctl("export"),
		"cmd/agentctl/internal/group":         commandOfAgentctl("group"),
		"cmd/agentctl/internal/hosted":        commandOfAgentctl("hosted"),
		"cmd/agentctl/internal/importing":     commandOfAgentctl("importing"),
		"cmd/agentctl/internal/join":          commandOfAgentctl("join"),
		"cmd/agentctl/internal/leave":         commandOfAgentctl("leave"),
		"cmd/agentctl/internal/orphans":       commandOfAgentctl("orphans"),
		"cmd/agentctl/internal/rules/...":     commandOfAgentctl("rules"),
		"cmd/agentctl/internal/status":        commandOfAgentctl("status"),
		"cmd/agentctl/internal/ui/...":        commandOfAgentctl("ui"),
		"cmd/agentctl/internal/verify":        commandOfAgentctl("verify"),
		"cmd/agentctl/internal/version":       commandOfAgentctl("version"),
	}
}

// leafOfAgentctl is the rule of a package that all commands use; but are the other such packages that it may use.
func leafOfAgentctl(but ...string) rule {
	r := rule{deny: []string{"/cmd/agentctl"}}
	for _, name := range but {
		r.allow = append(r.allow, "/cmd/agentctl/internal/"+name)
	}
	return r
}

// commandOfAgentctl is the rule of a command, and of what is below it.
func commandOfAgentctl(name string) rule {
	return leafOfAgentctl("byname", "cli", "clusters", "confirmations", "documents", "fleet", "live", "rights", "versions", name)
}

// listed is what this test reads of `go list -json`.
type listed struct {
	ImportPath   string
	Dir          string
	Imports      []string
	TestImports  []string // of the tests in the package
	XTestImports []string // of those in package NAME_test
	Deps         []string
}

func TestDependencyDirection(t *testing.T) {
	t.Parallel()
	packages := list(t)
	for pattern, rule := range rules() {
		for _, p := range packages {
			if !matches(pattern, p.ImportPath) {
				continue
			}
			for _, dep := range p.Deps {
				if rule.forbids(dep) {
					t.Errorf("%s must not know %s: %s", p.ImportPath, dep, chain(packages, p.ImportPath, dep))
				}
			}
		}
	}
}

// directly maps packages to what their own files may not import. What they import may: the standard library does.
func directly() map[string][]string {
	lockFree := []string{"sync", "sync/atomic", "context", module + "/syncrules/engine"}
	return map[string][]string{
		"syncrules/engine/copies": lockFree, "syncrules/engine/guard": lockFree, "syncrules/engine/lanes": lockFree,
		"syncrules/engine/pace": lockFree, "syncrules/engine/place": lockFree, "syncrules/engine/problem": lockFree,
		"syncrules/engine/inforce": lockFree, "syncrules/engine/quota": lockFree, "syncrules/engine/tally": lockFree, "syncrules/engine/turns": lockFree,
		"syncrules/engine/anew": lockFree, "syncrules/engine/fingerprint": lockFree, "syncrules/engine/notify": lockFree,
		"syncrules/engine/visible": lockFree, "syncrules/engine/dropped": lockFree, "syncrules/engine/deletions": lockFree, "syncrules/engine/bounds": lockFree,
		"syncrules/engine/selections": lockFree,
	}
}

// What the engine decides by has no lock, and asks nobody.
func TestPartsOfTheEngineHaveNoLock(t *testing.T) {
	t.Parallel()
	packages := list(t)
	for path, denied := range directly() {
		i := slices.IndexFunc(packages, func(p listed) bool { return p.ImportPath == module+"/"+path })
		if i < 0 {
			t.Errorf("there is no package %q", path)
			continue
		}
		for _, imported := range packages[i].Imports {
			if slices.Contains(denied, imported) {
				t.Errorf("%s must not import %s", path, imported)
			}
		}
	}
}

// The four lower parts and the command exist, so that a rename does not make a rule say nothing.
func TestRulesNameExistingPackages(t *testing.T) {
	t.Parallel()
	packages := list(t)
	for pattern := range rules() {
		found := slices.ContainsFunc(packages, func(p listed) bool { return matches(pattern, p.ImportPath) })
		if !found {
			t.Errorf("no package matches %q", pattern)
		}
	}
}

func TestForbids(t *testing.T) {
	t.Parallel()
	r := rule{deny: []string{"/", "k8s.io"}, allow: []string{"/mesh", "k8s.io/apimachinery"}}
	for path, want := range map[string]bool{
		"net/http":                       false,
		module + "/mesh":                 false,
		module + "/mesh/meshtest":        false,
		module + "/meshes":               true,
		module + "/kube":                 true,
		"k8s.io/client-go/rest":          true,
		"k8s.io/apimachinery/pkg/fields": false,
		"k8s.iota/x":                     false,
	} {
		if got := r.forbids(path); got != want {
			t.Errorf("forbids(%q) = %v, want %v", path, got, want)
		}
	}
}

func (r rule) forbids(path string) bool {
	longest := func(prefixes []string) int {
		length := -1
		for _, prefix := range prefixes {
			if strings.HasPrefix(prefix, "/") {
				prefix = strings.TrimSuffix(module+prefix, "/")
			}
			if path == prefix || strings.HasPrefix(path, prefix+"/") {
				length = max(length, len(prefix))
			}
		}
		return length
	}
	return longest(r.deny) > longest(r.allow)
}

func matches(pattern, path string) bool {
	name, below := strings.CutSuffix(pattern, "/...")
	name = module + "/" + name
	return path == name || below && strings.HasPrefix(path, name+"/")
}

// chain returns the shortest way from one package to another.
func chain(packages []listed, from, to string) string {
	imports := make(map[string][]string, len(packages))
	for _, p := range packages {
		imports[p.ImportPath] = p.Imports
	}
	before := map[string]string{from: ""}
	for queue := []string{from}; len(queue) > 0; queue = queue[1:] {
		if queue[0] == to {
			break
		}
		for _, next := range imports[queue[0]] {
			if _, seen := before[next]; !seen {
				before[next] = queue[0]
				queue = append(queue, next)
			}
		}
	}
	way := []string{to}
	for at := before[to]; at != ""; at = before[at] {
		way = append(way, at)
	}
	slices.Reverse(way)
	return strings.Join(way, " imports ")
}

// list returns the module's packages and all that they import.
func list(t *testing.T) []listed {
	t.Helper()
	packages, err := listOnce()
	if err != nil {
		t.Fatal(err)
	}
	return packages
}

var listOnce = sync.OnceValues(func() ([]listed, error) {
	cmd := exec.CommandContext(context.Background(), "go", "list", "-deps", "-json=ImportPath,Dir,Imports,TestImports,XTestImports,Deps", module+"/...")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w: %s", err, &stderr)
	}
	var packages []listed
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			return packages, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read go list: %w", err)
		}
		packages = append(packages, p)
	}
})
