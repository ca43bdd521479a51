// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package depgraph

import (
	"encoding/json"
	"io/fs"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// root is the folder of the module, seen from here.
const root = "../.."

// TestModulesShareVersions: what several modules of this repository require has one version in all of them. A package
// whose dependencies have other versions is compiled once more, and Kubernetes, which three of them build, takes minutes.
func TestModulesShareVersions(t *testing.T) {
	t.Parallel()
	versions := map[string]map[string]string{} // module path, then version, then one folder that requires it
	for folder, required := range requirements(t) {
		if folder == "e2e/testbed/oldest" || folder == "e2e/testbed/middle" {
			continue // it needs what that Kubernetes was made for
		}
		if strings.HasPrefix(folder, "e2e/gitops/") {
			continue // as released, and compiled by another Go
		}
		for path, version := range required {
			if versions[path] == nil {
				versions[path] = map[string]string{}
			}
			versions[path][version] = folder
		}
	}
	for _, path := range slices.Sorted(maps.Keys(versions)) {
		if of := versions[path]; len(of) > 1 {
			t.Errorf("%s has versions %v: bring all to the newest with `go -C FOLDER get`", path, of)
		}
	}
}

// requirements returns the versions that each go.mod asks for, by its folder.
func requirements(t *testing.T) map[string]map[string]string {
	t.Helper()
	all := map[string]map[string]string{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != root && (strings.HasPrefix(entry.Name(), ".") || slices.Contains([]string{"bin", "dist"}, entry.Name())):
			return fs.SkipDir
		case entry.Name() != "go.mod":
			return nil
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		all[filepath.ToSlash(folder)], err = readRequirements(t, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 2 {
		t.Fatalf("found go.mod files in %v only", slices.Collect(maps.Keys(all)))
	}
	return all
}

func readRequirements(t *testing.T, file string) (map[string]string, error) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "mod", "edit", "-json", file).Output()
	if err != nil {
		return nil, err
	}
	var parsed struct {
		Require []struct{ Path, Version string }
	}
	if err := json.Unmarshal(out, &parsed); err != nil {
		return nil, err
	}
	required := map[string]string{}
	for _, r := range parsed.Require {
		required[r.Path] = r.Version
	}
	return required, nil
}
