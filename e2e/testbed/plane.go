// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// plane is one control plane.
type plane struct {
	name       string // such as cluster-1
	number     int
	dir        string
	ports      ports
	pki        pki
	api        *apiClient
	components []*component // in start order: each needs the one before it

	// mu makes starts and stops of this plane's components follow each other. It is held while a
	// start waits until the component serves.
	mu     sync.Mutex
	closed bool
}

// newPlane writes the plane's folder; it starts nothing.
func newPlane(ctx context.Context, o Options, number int, chosen *chooser) (*plane, error) {
	name := "cluster-" + strconv.Itoa(number)
	p := &plane{name: name, number: number, dir: filepath.Join(o.Dir, name)}
	if err := os.MkdirAll(filepath.Join(p.dir, "logs"), 0o700); err != nil {
		return nil, err
	}
	var err error
	if p.ports, err = loadPorts(ctx, filepath.Join(p.dir, "ports.json"), chosen); err != nil {
		return nil, err
	}
	p.pki = pki{dir: filepath.Join(p.dir, "pki")}
	if err := p.pki.ensure(); err != nil {
		return nil, fmt.Errorf("write %s: %w", p.pki.dir, err)
	}
	if p.api, err = newAPIClient(p.server(), p.pki); err != nil {
		return nil, err
	}
	if err := p.writeKubeconfig(filepath.Join(o.Dir, name+".kubeconfig"), "admin"); err != nil {
		return nil, err
	}
	if err := p.writeKubeconfig(p.controllerKubeconfig(), "controller-manager"); err != nil {
		return nil, err
	}
	server := apiserver(o.kind(number))
	if o.kind(number) == standalone {
		if err := p.prepareStandalone(); err != nil {
			return nil, err
		}
		ready := always(p.apiserverReady)
		if o.WaitControllers {
			ready = p.standaloneReady
		}
		p.components = []*component{p.component(o, kindAPIServer, server, p.standaloneArgs(), ready)}
		return p, nil
	}
	p.components = []*component{
		p.component(o, kindEtcd, "etcd", p.etcdArgs(o.Fsync), always(p.etcdReady)),
		p.component(o, kindAPIServer, server, p.apiserverArgs(), always(p.apiserverReady)),
		p.component(o, kindControllerManager, "kube-controller-manager", p.controllerArgs(), p.controllersReady),
	}
	return p, nil
}

func (p *plane) component(
	o Options, kind, binary string, args []string, ready func() func(context.Context) error,
) *component {
	return &component{
		name:  kind + "-" + strconv.Itoa(p.number),
		kind:  kind,
		path:  filepath.Join(o.Bin, binary),
		args:  args,
		log:   filepath.Join(p.dir, "logs", kind+".log"),
		dir:   p.dir,
		ready: ready,
	}
}

// always turns a check without memory into the form that a component takes.
func always(check func(context.Context) error) func() func(context.Context) error {
	return func() func(context.Context) error { return check }
}

func (p *plane) server() string { return "https://127.0.0.1:" + strconv.Itoa(p.ports.APIServer) }

func (p *plane) etcdURL() string { return "http://127.0.0.1:" + strconv.Itoa(p.ports.Etcd) }

func (p *plane) controllerKubeconfig() string {
	return filepath.Join(p.dir, "controller-manager.kubeconfig")
}

// up starts all components in order. waitControllers says whether to wait for the last one, too.
func (p *plane) up(ctx context.Context, s *spawner, waitControllers bool, progress func(string)) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.components {
		if err := ctx.Err(); err != nil {
			return errors.New("interrupted before ready")
		}
		began := time.Now()
		if err := c.start(s); err != nil {
			return err
		}
		if c.kind == kindControllerManager && !waitControllers {
			continue
		}
		if err := c.await(ctx); err != nil {
			return err
		}
		progress(fmt.Sprintf("%s: %s ready after %.2f s", p.name, c.kind, time.Since(began).Seconds()))
	}
	return nil
}

// start ends an outage of the component with this index and returns when it serves again.
func (p *plane) start(ctx context.Context, s *spawner, index int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return errStopping
	}
	c := p.components[index]
	if index > 0 {
		if needs := p.components[index-1]; !needs.running() {
			return fmt.Errorf("%s needs %s, which is %s: start that first", c.name, needs.name, needs.state())
		}
	}
	if err := c.start(s); err != nil {
		return err
	}
	if err := c.await(ctx); err != nil {
		return err
	}
	// An API server that ran through an outage of its etcd serves a moment later than etcd does.
	if c.kind == kindEtcd && p.components[index+1].running() {
		return p.components[index+1].await(ctx)
	}
	return nil
}

func (p *plane) stop(index int, sig syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return errStopping
	}
	return p.components[index].stop(sig)
}

// close ends everything, for good. Only etcd holds anything that an orderly end is good for.
func (p *plane) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	var errs []error
	for _, c := range slices.Backward(p.components) {
		if c.proc.Load() == nil {
			continue
		}
		sig := syscall.SIGKILL
		if c.kind == kindEtcd {
			sig = syscall.SIGTERM
		}
		errs = append(errs, c.stop(sig))
	}
	return errors.Join(errs...)
}
