// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

// home is where the project is, and where its releases can be downloaded.
const home = "https://github.com/roster-mesh/roster"

// krewManifest is the manifest of a kubectl plugin for krew, see https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest.
type krewManifest struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   map[string]string `json:"metadata"`
	Spec       krewSpec          `json:"spec"`
}

type krewSpec struct {
	Version     string         `json:"version"`
	Homepage    string         `json:"homepage"`
	Short       string         `json:"shortDescription"`
	Description string         `json:"description"`
	Platforms   []krewPlatform `json:"platforms"`
}

type krewPlatform struct {
	Selector map[string]map[string]string `json:"selector"`
	URI      string                       `json:"uri"`
	SHA256   string                       `json:"sha256"`
	Files    []map[string]string          `json:"files"`
	Bin      string                       `json:"bin"`
}

// writeKrew writes the manifest by which krew installs agentctl as `kubectl roster`, from the archives that are written already.
func (r *release) writeKrew() error {
	m := krewManifest{
		APIVersion: "krew.googlecontainertools.github.com/v1alpha2", Kind: "Plugin", Metadata: map[string]string{"name": "roster"},
		Spec: krewSpec{
			Version: "v" + r.version, Homepage: home, Short: "Join clusters to a group and see what is synced",
			Description: "Lets clusters join a group without a leader, lists its clusters and rules, says why an object is or\nis not copied, and finds what is wrong in any of them. It is agentctl, under another name.\n",
		},
	}
	for _, p := range clientPlatforms() {
		dir, archive := archiveOf("agentctl", r.version, p)
		data, err := os.ReadFile(filepath.Join(r.out, archive))
		if err != nil {
			return err
		}
		program := programOf("agentctl", p)
		m.Spec.Platforms = append(m.Spec.Platforms, krewPlatform{
			Selector: map[string]map[string]string{"matchLabels": {"os": p.os, "arch": p.arch}},
			URI:      fmt.Sprintf("%s/releases/download/v%s/%s", home, r.version, archive),
			SHA256:   fmt.Sprintf("%x", sha256.Sum256(data)),
			Files:    []map[string]string{{"from": dir + "/" + program, "to": "."}, {"from": dir + "/LICENSE", "to": "."}},
			Bin:      program,
		})
	}
	data, err := yaml.Marshal(m)
	if err != nil {
		return err
	}
	return r.create("roster.yaml", func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}
