// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// Options say what Up starts.
type Options struct {
	// Dir is a new folder for everything; "" makes one that Close removes.
	Dir string
	// Bins are the folders that hold the programs.
	Bins []string
	// Names are those of the clusters, at most 9.
	Names []string
	// Log receives progress lines; nil drops them.
	Log func(format string, args ...any)
}

// Site is a set of clusters on one switch.
type Site struct {
	Dir   string
	Nodes []*Node

	bins []string
	log  func(string, ...any)
}

const dirPrefix = "roster-pods-"

// Up starts the clusters side by side and returns when their nodes are Ready and their DNS serves. Whatever it
// returns, Close ends what was started.
func Up(ctx context.Context, o Options) (*Site, error) {
	if o.Log == nil {
		o.Log = func(string, ...any) {}
	}
	s := &Site{Dir: o.Dir, bins: o.Bins, log: o.Log}
	if len(o.Names) == 0 || len(o.Names) > 9 {
		return s, fmt.Errorf("a site has 1 to 9 clusters, not %d", len(o.Names))
	}
	if err := s.prepare(); err != nil {
		return s, err
	}
	if err := makeSwitch(ctx); err != nil {
		return s, err
	}
	images, err := s.images()
	if err != nil {
		return s, err
	}
	for i, name := range o.Names {
		n, err := newNode(s, name, i+1)
		if err != nil {
			return s, err
		}
		s.Nodes = append(s.Nodes, n)
	}
	errs := make([]error, len(s.Nodes))
	var all sync.WaitGroup
	for i, n := range s.Nodes {
		all.Go(func() { errs[i] = n.up(ctx, images) })
	}
	all.Wait()
	return s, errors.Join(errs...)
}

// prepare removes what killed runs left behind, and makes the folder.
func (s *Site) prepare() error {
	if err := sweepCgroups(); err != nil {
		return fmt.Errorf("remove the cgroups of a run that was killed: %w", err)
	}
	if s.Dir != "" {
		return os.MkdirAll(s.Dir, 0o755)
	}
	old, err := filepath.Glob(filepath.Join(os.TempDir(), dirPrefix+"*-*"))
	if err != nil {
		return err
	}
	for _, dir := range old {
		id, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), dirPrefix), "-")
		if pid, err := strconv.Atoi(id); err == nil && pid != os.Getpid() && !alive(pid) && !exists(filepath.Join(dir, keepMark)) {
			if err := os.RemoveAll(dir); err != nil {
				return fmt.Errorf("remove the folder of a run that was killed: %w", err)
			}
		}
	}
	s.Dir, err = os.MkdirTemp("", dirPrefix+strconv.Itoa(os.Getpid())+"-")
	if err == nil {
		err = os.Chmod(s.Dir, 0o755)
	}
	return err
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// images writes those that every node needs.
func (s *Site) images() ([]string, error) {
	var paths []string
	for program, name := range map[string]string{"pause": pauseImage, "coredns": dnsImage} {
		from, err := find(s.bins, program)
		if err != nil {
			return nil, err
		}
		path := filepath.Join(s.Dir, program+".tar")
		if err := WriteImage(path, name, from); err != nil {
			return nil, err
		}
		paths = append(paths, path)
	}
	return paths, nil
}

// Close ends every cluster and removes what they left on the machine, the folder last.
func (s *Site) Close() error {
	err := s.stop()
	if s.Dir == "" {
		return err
	}
	return errors.Join(err, os.RemoveAll(s.Dir))
}

// keepMark is a file in a folder that the next Up shall not remove.
const keepMark = "keep"

// CloseAndKeep is Close, but the folder stays, for the logs in it.
func (s *Site) CloseAndKeep() error {
	return errors.Join(s.stop(), os.WriteFile(filepath.Join(s.Dir, keepMark), nil, 0o600))
}

func (s *Site) stop() error {
	errs := make([]error, len(s.Nodes))
	var all sync.WaitGroup
	for i, n := range s.Nodes {
		all.Go(func() { errs[i] = n.close() })
	}
	all.Wait()
	return errors.Join(errs...)
}

// Programs are the folders that the programs of a checkout lie in.
func Programs(root string) []string {
	return []string{filepath.Join(root, "e2e", "pods", "bin"), filepath.Join(root, "e2e", "testbed", "bin")}
}
