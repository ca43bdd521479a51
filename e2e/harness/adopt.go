// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
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
	all := clientcmdapi.NewConfig()
	for i, r := range clusters {
		admin, err := clientcmd.LoadFromFile(r.Kubeconfig)
		if err != nil {
			return nil, fmt.Errorf("kubeconfig of %s: %w", r.Name, err)
		}
		if err := addContext(all, admin, r.Name); err != nil {
			return nil, err
		}
		c := &Cluster{Name: r.Name, Index: i + 1, fleet: f, dir: filepath.Join(dir, r.Name), uid: os.Getuid()}
		f.Clusters = append(f.Clusters, c)
	}
	if err := clientcmd.WriteToFile(*all, f.Kubeconfig); err != nil {
		return nil, fmt.Errorf("write the common kubeconfig: %w", err)
	}
	for _, c := range f.Clusters {
		if err := c.connect(); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// Environ is the environment of a tool that shall see every cluster of the fleet.
func (f *Fleet) Environ() []string { return f.environ() }
