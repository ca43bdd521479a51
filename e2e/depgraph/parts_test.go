// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package depgraph

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// leavesOfAgent are the packages below agent that every part may use, each with the leaves that it uses itself. Every
// other package there is a part, but agenttest, which is for tests.
func leavesOfAgent() map[string][]string {
	return map[string][]string{
		"apiconn":   nil,
		"budget":    {"loop"},
		"directory": {"informers", "payload"},
		"embedded":  {"loop"},
		"health":    nil,
		"informers": nil,
		"install":   nil,
		"loop":      nil,
		"payload":   nil,
		"pinned":    nil,
		"probe":     nil,
		"removals":  nil,
		"stops":     nil,
		"store":     nil,
		"tuning":    nil,
	}
}

// partsThatUseParts are the exceptions from "a part knows no other part". There should never be more of them.
func partsThatUseParts() map[string][]string {
	return map[string][]string{
		"group": {"identity"}, // a group is one of agents that have the cluster's key
	}
}

// forTestsOfAgent is what tests of parts share; nothing but tests may use it.
const forTestsOfAgent = "agenttest"

// mayUse says whether a package below agent may use another one there, or what is below that.
func mayUse(of, used string) bool {
	if of == used {
		return true
	}
	leaves := leavesOfAgent()
	if below, ok := leaves[of]; ok || of == forTestsOfAgent {
		return slices.Contains(below, used)
	}
	_, leaf := leaves[used]
	return leaf || slices.Contains(partsThatUseParts()[of], used)
}

// A part knows no other part, also not by way of others, and leaves are low: session.go joins the parts.
func TestPartsKnowNoPart(t *testing.T) {
	t.Parallel()
	packages := list(t)
	deps := make(map[string][]string, len(packages))
	for _, p := range packages {
		deps[p.ImportPath] = p.Deps
	}
	for _, p := range packages {
		of, ok := belowAgent(p.ImportPath)
		if !ok || of == "" {
			continue
		}
		for _, dep := range p.Deps {
			if used, ok := belowAgent(dep); ok && !mayUse(of, used) {
				t.Errorf("agent/%s must not know %s: %s", of, dep, chain(packages, p.ImportPath, dep))
			}
		}
		for _, imported := range slices.Concat(p.TestImports, p.XTestImports) {
			for _, dep := range append(deps[imported], imported) {
				if used, ok := belowAgent(dep); ok && used != forTestsOfAgent && !mayUse(of, used) {
					t.Errorf("tests of agent/%s must not know %s: %s", of, dep, chain(packages, imported, dep))
				}
			}
		}
	}
}

// Nothing but package agent joins parts.
func TestPartsAreUsedByAgentAlone(t *testing.T) {
	t.Parallel()
	for _, p := range list(t) {
		of, ok := belowAgent(p.ImportPath)
		if ok { // see TestPartsKnowNoPart
			if used := module + "/agent/" + forTestsOfAgent; of == "" && slices.Contains(p.Imports, used) {
				t.Errorf("%s must not know %s but in tests", p.ImportPath, used)
			}
			continue
		}
		for _, imported := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			used, ok := belowAgent(imported)
			if _, leaf := leavesOfAgent()[used]; ok && used != "" && !leaf {
				t.Errorf("%s must not know %s: package agent alone joins the parts", p.ImportPath, imported)
			}
		}
	}
}

// What is written above is about packages that exist.
func TestLeavesAndExceptionsExist(t *testing.T) {
	t.Parallel()
	packages := list(t)
	imports := make(map[string][]string)
	for _, p := range packages {
		imports[p.ImportPath] = p.Imports
	}
	check := func(of string, used []string) {
		have, ok := imports[module+"/agent/"+of]
		if !ok {
			t.Errorf("there is no package agent/%s", of)
		}
		for _, name := range used {
			if !slices.Contains(have, module+"/agent/"+name) {
				t.Errorf("agent/%s does not use agent/%s any more: delete that from the list", of, name)
			}
		}
	}
	for of, used := range leavesOfAgent() {
		check(of, used)
	}
	for of, used := range partsThatUseParts() {
		check(of, used)
	}
	check(forTestsOfAgent, nil)
}

// lockFree are the packages below syncrules/engine that decide and remember, and leave locks and waiting to the engine.
func lockFree() []string {
	return []string{
		"anew", "bounds", "copies", "deletions", "dropped", "fingerprint", "guard", "inforce", "lanes", "notify", "pace", "place", "problem", "quota", "selections", "tally", "turns", "visible",
	}
}

// The engine's decisions are values in, values out: no locks, no contexts, and no way back to the engine.
func TestDecisionsOfTheEngineHaveNoLocks(t *testing.T) {
	t.Parallel()
	const engine = module + "/syncrules/engine"
	packages := list(t)
	for _, name := range lockFree() {
		i := slices.IndexFunc(packages, func(p listed) bool { return p.ImportPath == engine+"/"+name })
		if i < 0 {
			t.Errorf("there is no package syncrules/engine/%s", name)
			continue
		}
		for _, imported := range packages[i].Imports {
			if imported == "context" || imported == "sync" || imported == "sync/atomic" {
				t.Errorf("syncrules/engine/%s must not import %s", name, imported)
			}
		}
		for _, dep := range packages[i].Deps {
			if below, ok := strings.CutPrefix(dep, engine); ok && !slices.Contains(lockFree(), strings.TrimPrefix(below, "/")) {
				t.Errorf("syncrules/engine/%s must not know %s: %s", name, dep, chain(packages, packages[i].ImportPath, dep))
			}
		}
	}
}

// importsBetweenParts are the imports of one part of agent by another.
func importsBetweenParts(packages []listed) []string {
	found := make(map[string]bool)
	isPart := func(name string) bool {
		_, leaf := leavesOfAgent()[name]
		return name != "" && name != forTestsOfAgent && !leaf
	}
	for _, p := range packages {
		of, ok := belowAgent(p.ImportPath)
		if !ok || !isPart(of) {
			continue
		}
		for _, imported := range p.Imports {
			if used, ok := belowAgent(imported); ok && used != of && isPart(used) {
				found[fmt.Sprintf("%s imports %s", of, used)] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// belowAgent returns the name of the package directly below agent that path is, or is below; "" for agent itself.
func belowAgent(path string) (name string, ok bool) {
	rest, ok := strings.CutPrefix(path, module+"/agent")
	if !ok || rest != "" && rest[0] != '/' {
		return "", false
	}
	name, _, _ = strings.Cut(strings.TrimPrefix(rest, "/"), "/")
	return name, true
}
