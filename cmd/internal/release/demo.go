// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"path/filepath"
)

// demoReadme is what a person reads who has unpacked the archive.
const demoReadme = `Roster %s: see what it does, on this machine alone.

  ./demo           three clusters without Kubernetes, step by step; they stay up until ctrl-C
  ./demo --once    the same, and the end

Nothing is installed, and nothing is left: all of it is in a temporary directory. What the clusters are made of is in bin:
agent, agentctl, roster-apiserver, and kubectl.

%s
`

// writeDemo packs the demo with all that it starts, for each of the platforms. The terms of kubectl come with roster-apiserver, which
// is built from the same Kubernetes.
func (r *release) writeDemo(stdout io.Writer) error {
	for _, p := range r.platforms {
		demo, err := r.binary("demo", p)
		if err != nil {
			return err
		}
		programs, err := r.binaries(p, []string{"agent", "agentctl", "kubectl", "roster-apiserver"})
		if err != nil {
			return err
		}
		more, err := r.licences(append(programs, demo)...)
		if err != nil {
			return err
		}
		dir, archive := archiveOf("roster-demo", r.version, p)
		files := []entry{
			{name: "README", mode: 0o644, data: fmt.Appendf(nil, demoReadme, r.version, source)},
			{name: "demo", mode: 0o755, data: demo.data},
		}
		for _, b := range programs {
			files = append(files, entry{name: "bin/" + b.name, mode: 0o755, data: b.data})
		}
		files = append(files, more...)
		for i := range files {
			files[i].name = dir + "/" + files[i].name
		}
		if err := r.create(archive, func(w io.Writer) error { return writeTarGzAt(r.compression, w, r.date, files) }); err != nil {
			return err
		}
		fmt.Fprintln(stdout, filepath.Join(r.out, archive))
	}
	return nil
}
