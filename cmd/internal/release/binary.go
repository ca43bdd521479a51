// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
)

// platform is what a binary runs on.
type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "/" + p.arch }

// imagePlatforms are those that the agent and roster-apiserver run on.
func imagePlatforms() []platform {
	return []platform{{"linux", "amd64"}, {"linux", "arm64"}}
}

// clientPlatforms are those that agentctl runs on.
func clientPlatforms() []platform {
	return append(imagePlatforms(), platform{"darwin", "amd64"}, platform{"darwin", "arm64"}, platform{"windows", "amd64"}, platform{"windows", "arm64"})
}

// binary is a program for one platform, as the Go toolchain built it.
type binary struct {
	name     string
	platform platform
	data     []byte
	sum      [sha256.Size]byte
	info     *debug.BuildInfo
}

// errNotBuilt is returned when a binary is not there.
var errNotBuilt = errors.New("is not built yet: use make image, make image-apiserver or make release")

// readBinary reads a binary, and refuses one that would not run from scratch or that was built for another platform.
func readBinary(dir, name string, p platform) (*binary, error) {
	path := filepath.Join(dir, p.os+"_"+p.arch, name)
	if p.os == "windows" {
		path += ".exe"
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s %w", path, errNotBuilt)
	}
	if err != nil {
		return nil, err
	}
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%s: not a binary of Go: %w", path, err)
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	for key, want := range map[string]string{"GOOS": p.os, "GOARCH": p.arch, "CGO_ENABLED": "0", "-trimpath": "true"} {
		if settings[key] != want {
			return nil, fmt.Errorf("%s: was built with %s=%q, must be %q", path, key, settings[key], want)
		}
	}
	return &binary{name, p, data, sha256.Sum256(data), info}, nil
}
