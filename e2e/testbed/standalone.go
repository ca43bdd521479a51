// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
)

// A standalone plane is one component, the API server.

func (p *plane) standaloneDir() string { return filepath.Join(p.dir, "standalone") }

// prepareStandalone gives the server the plane's CA, so that it knows the plane's client certificates.
func (p *plane) prepareStandalone() error {
	folder := filepath.Join(p.standaloneDir(), "pki")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	var both bytes.Buffer
	for _, name := range []string{"ca.crt", "ca.key"} {
		data, err := os.ReadFile(p.pki.path(name))
		if err != nil {
			return err
		}
		both.Write(data)
	}
	return writeFile(filepath.Join(folder, "ca.pem"), both.Bytes())
}

func (p *plane) standaloneArgs() []string {
	return []string{"standalone", "--data-dir=" + p.standaloneDir(), "--listen=127.0.0.1:" + strconv.Itoa(p.ports.APIServer)}
}

// standaloneReady waits for the controllers, too, which are a part of it.
func (p *plane) standaloneReady() func(context.Context) error {
	controllers := p.controllersReady()
	return func(ctx context.Context) error {
		if err := p.apiserverReady(ctx); err != nil {
			return err
		}
		return controllers(ctx)
	}
}
