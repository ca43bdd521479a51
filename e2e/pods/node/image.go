// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
)

// WriteImage writes a docker archive with an image of one layer: static programs in the root folder, of which the first
// is what a container runs.
func WriteImage(path, name string, programs ...string) error {
	layer := path + ".layer"
	defer os.Remove(layer) //nolint:errcheck // It lies in a folder that is thrown away.
	digest, err := writeLayer(layer, programs)
	if err != nil {
		return fmt.Errorf("image %s: %w", name, err)
	}
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{"User": "65532:65532", "Entrypoint": []string{"/" + filepath.Base(programs[0])}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{digest}},
	})
	if err != nil {
		return err
	}
	manifest, err := json.Marshal([]map[string]any{{"Config": "config.json", "RepoTags": []string{name}, "Layers": []string{"layer.tar"}}})
	if err != nil {
		return err
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	archive := tar.NewWriter(file)
	for name, data := range map[string][]byte{"config.json": config, "manifest.json": manifest} {
		if err := archive.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(data))}); err != nil {
			return err
		}
		if _, err := archive.Write(data); err != nil {
			return err
		}
	}
	if err := addFile(archive, "layer.tar", 0o644, layer); err != nil {
		return err
	}
	if err := archive.Close(); err != nil {
		return err
	}
	return file.Close()
}

func writeLayer(path string, programs []string) (digest string, err error) {
	file, err := os.Create(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	hash := sha256.New()
	layer := tar.NewWriter(io.MultiWriter(file, hash))
	for _, program := range programs {
		if err := addFile(layer, filepath.Base(program), 0o755, program); err != nil {
			return "", err
		}
	}
	if err := layer.Close(); err != nil {
		return "", err
	}
	return fmt.Sprintf("sha256:%x", hash.Sum(nil)), file.Close()
}

func addFile(archive *tar.Writer, name string, mode int64, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if err := archive.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: info.Size()}); err != nil {
		return err
	}
	_, err = io.Copy(archive, file)
	return err
}
