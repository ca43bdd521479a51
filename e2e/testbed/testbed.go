// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// maxClusters keeps a mistyped number from filling the machine: a plane takes about 400 MiB.
const maxClusters = 50

// errStopping is returned when a component is to be changed while everything is being stopped.
var errStopping = errors.New("the testbed is stopping")

// standalone is the kind of plane that is Roster's own API server, which has etcd and controllers in it.
const standalone = "standalone"

// Options say what Up starts.
type Options struct {
	Clusters        int
	Dir             string    // new, empty, or a testbed's
	Bin             string    // folder of the binaries
	Kubernetes      []string  // newest or oldest, the version of the API server; or standalone. One for all planes, or one for each
	Fsync           bool      // whether etcd waits for the disk; latencies depend on it
	WaitControllers bool      // whether ready includes the controllers
	Out             io.Writer // progress
}

// Testbed is a running set of control planes.
type Testbed struct {
	dir     string
	planes  []*plane
	spawner *spawner

	out   io.Writer
	outMu sync.Mutex
	pids  sync.Mutex // held while pids.json is written, so that the last state wins
}

// Up runs the planes until ctx ends; it returns nil if they were ready by then.
func Up(ctx context.Context, o Options) (err error) {
	if err := o.check(); err != nil {
		return err
	}
	unlock, err := claim(o.Dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()

	t := &Testbed{dir: o.Dir, out: o.Out, spawner: newSpawner()}
	if err := t.prepare(ctx, o); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	stopServing, err := t.serve(ctx)
	if err != nil {
		return err
	}
	defer stopServing()

	began := time.Now()
	if err := t.start(ctx, o.WaitControllers); err != nil {
		return err
	}
	t.print(fmt.Sprintf("%d clusters after %.1f s, kubeconfigs in %s", len(t.planes), time.Since(began).Seconds(), t.dir))
	t.print("ready")
	<-ctx.Done()
	t.print("stopping")
	return nil
}

func (o *Options) check() error {
	if o.Clusters < 1 || o.Clusters > maxClusters {
		return fmt.Errorf("--clusters must be between 1 and %d, not %d", maxClusters, o.Clusters)
	}
	if o.Dir == "" {
		return errors.New("--dir is required: a new folder, or one that an earlier `testbed up` made")
	}
	var err error
	if o.Dir, err = filepath.Abs(o.Dir); err != nil {
		return err
	}
	if o.Bin, err = filepath.Abs(o.Bin); err != nil {
		return err
	}
	if n := len(o.Kubernetes); n != 1 && n != o.Clusters {
		return fmt.Errorf("--kubernetes has %d values for %d clusters: give one for all, or one for each", n, o.Clusters)
	}
	for _, kind := range o.Kubernetes {
		if err := o.built(kind); err != nil {
			return err
		}
	}
	return nil
}

// built returns an error when there is no such kind of plane, or a program that it runs is missing.
func (o *Options) built(kind string) error {
	target, names := "testbed", []string{"etcd", apiserver(kind), "kube-controller-manager"}
	switch kind {
	case "newest":
	case "oldest":
		target = "testbed-oldest"
	case standalone:
		target, names = "apiserver", []string{apiserver(kind)}
	default:
		return fmt.Errorf("--kubernetes must be newest, oldest or standalone, not %q", kind)
	}
	for _, name := range names {
		if info, err := os.Stat(filepath.Join(o.Bin, name)); err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
			return fmt.Errorf("%s is not in %s: run `make %s`", name, o.Bin, target)
		}
	}
	return nil
}

// kind is that of the plane with this number, from 1.
func (o *Options) kind(number int) string { return o.Kubernetes[min(number, len(o.Kubernetes))-1] }

// apiserver is the name of the API server's binary.
func apiserver(kind string) string {
	switch kind {
	case "oldest":
		return "kube-apiserver-oldest"
	case standalone:
		return "roster-apiserver"
	default:
		return "kube-apiserver"
	}
}

// claim takes the directory for this process. The lock ends with the process, however that ends.
func claim(dir string) (unlock func() error, err error) {
	const lockName = "testbed.lock"
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if len(entries) > 0 {
		if _, err := os.Stat(filepath.Join(dir, lockName)); err != nil {
			return nil, fmt.Errorf("%s is neither empty nor a testbed's: choose another --dir", dir)
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(dir, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, errors.Join(
			fmt.Errorf("%s is in use by another testbed: stop that one, or choose another --dir", dir), lock.Close())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", dir, err), lock.Close())
	}
	return lock.Close, nil
}

// prepare writes every plane's folder.
func (t *Testbed) prepare(ctx context.Context, o Options) error {
	chosen := newChooser()
	for n := 1; n <= o.Clusters; n++ {
		p, err := newPlane(ctx, o, n, chosen)
		if err != nil {
			return fmt.Errorf("prepare cluster-%d: %w", n, err)
		}
		for _, c := range p.components {
			c.changed = t.componentChanged
		}
		t.planes = append(t.planes, p)
	}
	return nil
}

// start brings the planes up, as many at a time as there are processors: an API server is busy
// with itself for its first seconds.
func (t *Testbed) start(ctx context.Context, waitControllers bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	slots := make(chan struct{}, max(1, runtime.NumCPU()))
	results := make(chan error, len(t.planes))
	for _, p := range t.planes {
		go func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			results <- p.up(ctx, t.spawner, waitControllers, t.print)
		}()
	}
	var first error
	for range t.planes {
		if err := <-results; err != nil && first == nil {
			first = err
			cancel() // The others are not worth waiting for.
		}
	}
	return first
}

// close stops every plane and removes what is true of running ones only.
func (t *Testbed) close() error {
	errs := make([]error, len(t.planes))
	var group sync.WaitGroup
	for i, p := range t.planes {
		group.Go(func() { errs[i] = p.close() })
	}
	group.Wait()
	if err := os.Remove(filepath.Join(t.dir, "pids.json")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (t *Testbed) print(line string) {
	t.outMu.Lock()
	defer t.outMu.Unlock()
	fmt.Fprintln(t.out, line)
}

func (t *Testbed) componentChanged(note string) {
	if note != "" {
		t.print(note)
	}
	if err := t.writePIDs(); err != nil {
		t.print("write pids.json: " + err.Error())
	}
}

func (t *Testbed) writePIDs() error {
	t.pids.Lock()
	defer t.pids.Unlock()
	pids := map[string]int{"testbed": os.Getpid()}
	for c := range t.components {
		if p := c.proc.Load(); p != nil {
			pids[c.name] = p.pid()
		}
	}
	data, err := json.MarshalIndent(pids, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(t.dir, "pids.json"), append(data, '\n'))
}

// components is an iterator over the components of all planes.
func (t *Testbed) components(yield func(*component) bool) {
	for _, p := range t.planes {
		for _, c := range p.components {
			if !yield(c) {
				return
			}
		}
	}
}

// find returns the plane and the index in it of a component.
func (t *Testbed) find(name string) (*plane, int, error) {
	for _, p := range t.planes {
		for i, c := range p.components {
			if c.name == name {
				return p, i, nil
			}
		}
	}
	var names []string
	for c := range t.components {
		names = append(names, c.name)
	}
	return nil, 0, fmt.Errorf("unknown component %q: one of %s", name, strings.Join(names, ", "))
}

// writeFile replaces path in one step: a reader sees the old content or the new.
func writeFile(path string, data []byte) error {
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
