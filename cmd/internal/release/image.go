// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const (
	// user is who runs in the container: nobody in particular, and the chart's runAsUser.
	user = 65532
	// maxImage bounds what a node downloads.
	maxImage = 60 << 20
	source   = "https://github.com/roster-mesh/roster"
)

// errTooLarge is returned when an image has outgrown maxImage.
var errTooLarge = errors.New("image is too large")

// image is one of those that are released.
type image struct {
	verb        string // that writes it alone
	file        string // the name of its files, before the version
	repository  string // in full, without the tag, which is the version
	title       string
	description string
	programs    []string // each in a layer of its own, what changes less often first; the last is the entrypoint
	ports       []string
}

// images are under the names that the chart asks for.
func images() []image {
	return []image{
		{
			verb: "image", file: "roster-agent", repository: "docker.io/roster-mesh/agent",
			title: "Roster agent", description: "Keeps one list of Kubernetes clusters in all of them, and copies what sync rules name",
			programs: []string{"agentctl", "agent"}, ports: []string{"7946/tcp", "8080/tcp"},
		},
		{
			verb: "image-apiserver", file: "roster-apiserver", repository: "docker.io/roster-mesh/roster-apiserver",
			title: "Roster API server", description: "Serves the registry API behind Kubernetes, and the Kubernetes API to clusters without it",
			programs: []string{"roster-apiserver"}, ports: []string{"8443/tcp"},
		},
	}
}

// writeImage writes an image for all platforms as one tar, and what is inside beside it.
//
// The tar is an OCI image layout, which containerd, Docker with its containerd store, Podman, skopeo, crane and kind
// read. Its manifest.json is for Docker's older store, which knows one platform only: there each has a tag.
func (r *release) writeImage(stdout io.Writer, i image) error {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	var legacy []legacyImage
	var inside []*binary
	for _, p := range r.platforms {
		programs, err := r.binaries(p, i.programs)
		if err != nil {
			return err
		}
		img, err := r.platformImage(i, p, programs)
		if err != nil {
			return err
		}
		size, err := sizeOf(img)
		if err != nil {
			return err
		}
		fmt.Fprintf(stdout, "%s: %.1f MiB compressed\n", p, float64(size)/(1<<20))
		if size > r.limit {
			return fmt.Errorf("%w: %d bytes for %s, and may be %d", errTooLarge, size, p, r.limit)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: p.os, Architecture: p.arch}},
		})
		old, err := r.legacy(i, p, img)
		if err != nil {
			return err
		}
		legacy = append(legacy, old)
		inside = append(inside, programs...)
	}
	index, ok := mutate.Annotations(index, r.annotations(i)).(v1.ImageIndex)
	if !ok {
		return errors.New("annotate the index: it is no index any more")
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	name := i.file + "-" + r.version
	if err := r.create(name+".tar", func(w io.Writer) error { return r.writeLayout(w, i, index, legacy) }); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%s is %s:%s@%s\n", filepath.Join(r.out, name+".tar"), i.repository, r.version, digest)
	return r.writeSBOM(name, inside)
}

func (r *release) binaries(p platform, names []string) ([]*binary, error) {
	var out []*binary
	for _, name := range names {
		b, err := r.binary(name, p)
		if err != nil {
			return nil, err
		}
		out = append(out, b)
	}
	return out, nil
}

// annotations say what the image is; they are also its labels, since not every tool shows both.
func (r *release) annotations(i image) map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":       i.title,
		"org.opencontainers.image.description": i.description,
		"org.opencontainers.image.version":     r.version,
		"org.opencontainers.image.revision":    r.commit,
		"org.opencontainers.image.created":     r.date.Format(time.RFC3339),
		"org.opencontainers.image.licenses":    license,
		"org.opencontainers.image.source":      source,
		"org.opencontainers.image.vendor":      authors,
	}
}

// platformImage has no CA certificates: the programs take no kubeconfig without the CA of its API server, so none of the
// system would ever be asked.
func (r *release) platformImage(i image, p platform, programs []*binary) (v1.Image, error) {
	ports := map[string]struct{}{}
	for _, port := range i.ports {
		ports[port] = struct{}{}
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err := mutate.ConfigFile(img, &v1.ConfigFile{
		OS: p.os, Architecture: p.arch, Author: authors, Created: v1.Time{Time: r.date},
		RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{
			User:         fmt.Sprintf("%d:%d", user, user),
			Entrypoint:   []string{"/" + i.programs[len(i.programs)-1]},
			Env:          []string{"PATH=/"},
			WorkingDir:   "/",
			ExposedPorts: ports,
			Labels:       r.annotations(i),
		},
	})
	if err != nil {
		return nil, err
	}
	contents, err := r.contents(programs)
	if err != nil {
		return nil, err
	}
	for _, files := range contents {
		last := files[len(files)-1].name
		layer, err := r.layer(files)
		if err != nil {
			return nil, fmt.Errorf("layer of /%s: %w", last, err)
		}
		img, err = mutate.Append(img, mutate.Addendum{
			Layer: layer, MediaType: types.OCILayer,
			History: v1.History{Created: v1.Time{Time: r.date}, CreatedBy: "make " + i.verb + ": /" + last, Author: authors},
		})
		if err != nil {
			return nil, err
		}
	}
	annotated, ok := mutate.Annotations(img, r.annotations(i)).(v1.Image)
	if !ok {
		return nil, errors.New("annotate the image: it is no image any more")
	}
	return annotated, nil
}

// contents are the files of each layer.
func (r *release) contents(programs []*binary) ([][]entry, error) {
	licences, err := r.licences(programs...)
	if err != nil {
		return nil, err
	}
	for i := range licences {
		licences[i].name = "licenses/" + licences[i].name
	}
	layers := [][]entry{append([]entry{{name: "licenses/", mode: 0o755}}, licences...)}
	for _, b := range programs {
		layers = append(layers, []entry{{name: b.name, mode: 0o755, data: b.data}})
	}
	// Where a program keeps what it may lose; the agent's chart mounts a volume there.
	data := []entry{{name: "var/", mode: 0o755}, {name: "var/lib/", mode: 0o755}, {name: "var/lib/roster/", mode: 0o700, owner: user}}
	layers[len(programs)] = append(data, layers[len(programs)]...)
	return layers, nil
}

func (r *release) layer(files []entry) (v1.Layer, error) {
	var content bytes.Buffer
	if err := writeTar(&content, r.date, files); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content.Bytes())), nil
	}, tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(gzip.BestCompression), tarball.WithCompressedCaching)
}

// sizeOf is what a node downloads.
func sizeOf(img v1.Image) (int64, error) {
	manifest, err := img.Manifest()
	if err != nil {
		return 0, err
	}
	total, err := img.Size()
	if err != nil {
		return 0, err
	}
	for _, blob := range append(manifest.Layers, manifest.Config) {
		total += blob.Size
	}
	return total, nil
}

// legacyImage is an entry of Docker's manifest.json.
type legacyImage struct {
	Config   string
	RepoTags []string
	Layers   []string
}

func (r *release) legacy(i image, p platform, img v1.Image) (legacyImage, error) {
	manifest, err := img.Manifest()
	if err != nil {
		return legacyImage{}, err
	}
	blob := func(d v1.Descriptor) string { return path.Join("blobs", d.Digest.Algorithm, d.Digest.Hex) }
	old := legacyImage{Config: blob(manifest.Config), RepoTags: []string{i.repository + ":" + r.version + "-" + p.arch}}
	for _, layer := range manifest.Layers {
		old.Layers = append(old.Layers, blob(layer))
	}
	return old, nil
}

func (r *release) writeLayout(w io.Writer, i image, index v1.ImageIndex, legacy []legacyImage) error {
	dir, err := os.MkdirTemp(r.out, ".layout.*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it holds nothing that is not in the tar
	at, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	if err := at.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"io.containerd.image.name":          i.repository + ":" + r.version,
		"org.opencontainers.image.ref.name": r.version,
	})); err != nil {
		return err
	}
	data, err := json.Marshal(legacy)
	if err != nil {
		return err
	}
	if err := at.WriteFile("manifest.json", data, 0o644); err != nil {
		return err
	}
	var files []entry
	if err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil || file == dir {
			return err
		}
		name, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		if d.IsDir() {
			files = append(files, entry{name: filepath.ToSlash(name) + "/", mode: 0o755})
			return nil
		}
		data, err := os.ReadFile(file)
		files = append(files, entry{name: filepath.ToSlash(name), mode: 0o644, data: data})
		return err
	}); err != nil {
		return err
	}
	return writeTar(w, r.date, files)
}
