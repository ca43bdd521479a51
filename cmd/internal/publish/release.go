// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"sigs.k8s.io/yaml"
)

const (
	typeChartConfig  = "application/vnd.cncf.helm.config.v1+json"
	typeChartContent = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
)

// readLayout unpacks the tar of an image, and returns what is in it.
func readLayout(path string) (index v1.ImageIndex, remove func() error, err error) {
	dir, err := os.MkdirTemp("", "roster-publish-")
	if err != nil {
		return nil, nil, err
	}
	remove = func() error { return os.RemoveAll(dir) }
	if index, err = unpack(path, dir); err != nil {
		return nil, nil, errors.Join(err, remove())
	}
	return index, remove, nil
}

func unpack(path, dir string) (v1.ImageIndex, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		if !filepath.IsLocal(h.Name) {
			return nil, fmt.Errorf("read %s: %q leads out of it", path, h.Name)
		}
		if err := write(filepath.Join(dir, h.Name), h, r); err != nil {
			return nil, err
		}
	}
	outer, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, err
	}
	manifest, err := outer.IndexManifest()
	if err != nil {
		return nil, err
	}
	if len(manifest.Manifests) != 1 {
		return nil, fmt.Errorf("%s has %d images, and must have one", path, len(manifest.Manifests))
	}
	return outer.ImageIndex(manifest.Manifests[0].Digest)
}

func write(path string, h *tar.Header, from io.Reader) error {
	if h.Typeflag == tar.TypeDir {
		return os.MkdirAll(path, 0o755)
	}
	to, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Close())
}

// chart pushes the chart as helm push does, with its provenance.
func (p *publisher) chart() error {
	content, err := os.ReadFile(filepath.Join(p.dist, "agent-"+p.version+".tgz"))
	if err != nil {
		return err
	}
	text, err := fileOf(content, "agent/Chart.yaml")
	if err != nil {
		return err
	}
	config, err := yaml.YAMLToJSON(text)
	if err != nil {
		return err
	}
	var about struct{ Name, Version, Description string }
	if err := yaml.Unmarshal(text, &about); err != nil {
		return err
	}
	if about.Version != p.version {
		return fmt.Errorf("it is version %s, and this release is %s", about.Version, p.version)
	}
	img, err := newArtifact(v1.Manifest{Annotations: map[string]string{
		"org.opencontainers.image.title":       about.Name,
		"org.opencontainers.image.version":     about.Version,
		"org.opencontainers.image.description": about.Description,
		"org.opencontainers.image.source":      source,
	}}, config, content, typeChartConfig, typeChartContent)
	if err != nil {
		return err
	}
	digest, err := img.Digest()
	if err != nil {
		return err
	}
	tag, err := p.free("charts/"+about.Name, digest)
	if err != nil {
		return err
	}
	if err := remote.Write(tag, img, p.options...); err != nil {
		return err
	}
	subject, err := p.subject(tag, digest)
	if err != nil {
		return err
	}
	return p.attachProvenance(tag, subject)
}

// fileOf is a file of a .tgz.
func fileOf(archive []byte, name string) ([]byte, error) {
	gz, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return nil, err
	}
	for r := tar.NewReader(gz); ; {
		h, err := r.Next()
		if err != nil {
			return nil, fmt.Errorf("find %s: %w", name, err)
		}
		if h.Name == name {
			return io.ReadAll(io.LimitReader(r, 1<<20))
		}
	}
}
