// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"errors"
	"os"
	"path/filepath"
)

// Running is a cluster that somebody else starts and ends.
type Running struct {
	Name       string
	Kubeconfig string // a file whose current context has admin access
}

// Adopt makes a Fleet of clusters that run already, with the chart's agents in pods perhaps. Methods that start, stop
// or cut something of the harness's own are not for these.
func Adopt(bin Binaries, dir string, clusters []Running) (*Fleet, error) {
	if len(clusters) == 0 {
		return nil, errors.New("no clusters to adopt")
	}
	f := &Fleet{Dir: dir, bin: bin, log: func(string, ...any) {}, Kubeconfig: filepath.Join(dir, "kubeconfig")}
	for i, r := range clusters {
		c := &Cluster{Name: r.Name, Index: i + 1, fleet: f, dir: filepath.Join(dir, r.Name), admin: r.Kubeconfig, uid: os.Getuid()}
		f.Clusters = append(f.Clusters, c)
	}
	if err := f.connect(); err != nil {
		return nil, err
	}
	return f, nil
}

// Environ is the environment of a tool that shall see every cluster of the fleet.
func (f *Fleet) Environ() []string { return f.environ() }
