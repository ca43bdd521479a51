// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const (
	source = "https://github.com/roster-mesh/roster"

	typeSPDX   = "application/spdx+json"
	typeInToto = "application/vnd.in-toto+json"
	typeEmpty  = "application/vnd.oci.empty.v1+json"
)

// artifact is something in a registry that is no image: a config and one layer.
type artifact struct {
	config   []byte
	layer    v1.Layer
	manifest []byte
}

// newArtifact describes config and content as the OCI image format has it.
func newArtifact(m v1.Manifest, config, content []byte, configType, contentType types.MediaType) (v1.Image, error) {
	a := &artifact{config: config, layer: static.NewLayer(content, contentType)}
	m.SchemaVersion, m.MediaType = 2, types.OCIManifestSchema1
	digest, size, err := v1.SHA256(bytes.NewReader(config))
	if err != nil {
		return nil, err
	}
	m.Config = v1.Descriptor{MediaType: configType, Digest: digest, Size: size}
	layer, err := partial.Descriptor(a.layer)
	if err != nil {
		return nil, err
	}
	m.Layers = []v1.Descriptor{*layer}
	if a.manifest, err = json.Marshal(m); err != nil {
		return nil, err
	}
	return partial.CompressedToImage(a)
}

// RawConfigFile is the config.
func (a *artifact) RawConfigFile() ([]byte, error) { return a.config, nil }

// MediaType is that of the manifest.
func (a *artifact) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }

// RawManifest is the manifest as it is pushed.
func (a *artifact) RawManifest() ([]byte, error) { return a.manifest, nil }

// LayerByDigest is the one layer.
func (a *artifact) LayerByDigest(digest v1.Hash) (partial.CompressedLayer, error) {
	own, err := a.layer.Digest()
	if err != nil {
		return nil, err
	}
	if digest != own {
		return nil, fmt.Errorf("there is no layer %s", digest)
	}
	return a.layer, nil
}

// attach pushes an artifact that refers to what was pushed: with the referrers API, or under a tag where a registry has none.
func (p *publisher) attach(to name.Tag, subject *v1.Descriptor, kind string, content []byte) error {
	img, err := newArtifact(v1.Manifest{ArtifactType: kind, Subject: subject}, []byte("{}"), content, typeEmpty, types.MediaType(kind))
	if err != nil {
		return err
	}
	digest, err := img.Digest()
	if err != nil {
		return err
	}
	if err := remote.Write(to.Digest(digest.String()), img, p.options...); err != nil {
		return fmt.Errorf("attach %s: %w", kind, err)
	}
	fmt.Fprintf(p.stdout, "  %s: %s\n", kind, digest)
	p.pushed = append(p.pushed, to.Digest(digest.String()).String())
	return nil
}

// attachProvenance says from which commit, and by which command, something was built.
func (p *publisher) attachProvenance(to name.Tag, subject *v1.Descriptor) error {
	type digests map[string]string
	statement := map[string]any{
		"_type":         "https://in-toto.io/Statement/v1",
		"predicateType": "https://slsa.dev/provenance/v1",
		"subject":       []any{map[string]any{"name": to.Context().Name(), "digest": digests{subject.Digest.Algorithm: subject.Digest.Hex}}},
		"predicate": map[string]any{
			"buildDefinition": map[string]any{
				"buildType":            source + "/blob/main/docs/release.md",
				"externalParameters":   map[string]any{"command": "make release", "version": p.version},
				"resolvedDependencies": []any{map[string]any{"uri": "git+" + source, "digest": digests{"gitCommit": p.commit}}},
			},
			"runDetails": map[string]any{"builder": map[string]any{"id": p.builder}},
		},
	}
	data, err := json.Marshal(statement)
	if err != nil {
		return err
	}
	return p.attach(to, subject, typeInToto, data)
}

func isNotFound(err error) bool {
	failed, ok := errors.AsType[*transport.Error](err)
	return ok && failed.StatusCode == http.StatusNotFound
}
