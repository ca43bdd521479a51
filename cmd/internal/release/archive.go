// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// entry is a file of an archive, or a directory when its name ends with a slash.
type entry struct {
	name  string
	mode  int64
	owner int
	data  []byte
}

// writeTar leaves nothing to the machine: owners, modes and times are said, and the order is that of entries.
func writeTar(w io.Writer, date time.Time, entries []entry) error {
	tw := tar.NewWriter(w)
	for _, e := range entries {
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: e.name, Mode: e.mode, Uid: e.owner, Gid: e.owner, Size: int64(len(e.data)), ModTime: date,
		}
		if strings.HasSuffix(e.name, "/") {
			header.Typeflag = tar.TypeDir
		}
		if err := tw.WriteHeader(header); err != nil {
			return err
		}
		if _, err := tw.Write(e.data); err != nil {
			return err
		}
	}
	return tw.Close()
}

func writeTarGz(w io.Writer, date time.Time, entries []entry) error {
	return writeTarGzAt(gzip.BestCompression, w, date, entries)
}

func writeTarGzAt(level int, w io.Writer, date time.Time, entries []entry) error {
	zw, err := gzip.NewWriterLevel(w, level)
	if err != nil {
		return err
	}
	return errors.Join(writeTar(zw, date, entries), zw.Close())
}

func writeZip(w io.Writer, date time.Time, entries []entry) error {
	if first := time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC); date.Before(first) {
		date = first // the format knows no earlier day
	}
	zw := zip.NewWriter(w)
	for _, e := range entries {
		header := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: date}
		header.SetMode(os.FileMode(e.mode))
		f, err := zw.CreateHeader(header)
		if err != nil {
			return err
		}
		if _, err := f.Write(e.data); err != nil {
			return err
		}
	}
	return zw.Close()
}

// writeArchives writes agentctl and agent for those who run them without the image.
func (r *release) writeArchives() error {
	completions, err := r.completions()
	if err != nil {
		return err
	}
	var clients []*binary
	for _, p := range clientPlatforms() {
		b, err := r.binary("agentctl", p)
		if err != nil {
			return err
		}
		more, err := r.licences(b)
		if err != nil {
			return err
		}
		if p.os != "windows" { // its shells are none of those
			more = append(more, completions...)
		}
		if err := r.writeArchive(b, more); err != nil {
			return err
		}
		clients = append(clients, b)
	}
	for _, p := range imagePlatforms() {
		b, err := r.binary("agent", p)
		if err != nil {
			return err
		}
		more, err := r.licences(b)
		if err != nil {
			return err
		}
		if err := r.writeArchive(b, more); err != nil {
			return err
		}
	}
	return r.writeSBOM("agentctl-"+r.version, clients)
}

// licences are the files that go with some binaries wherever they go.
func (r *release) licences(binaries ...*binary) ([]entry, error) {
	own, err := os.ReadFile(r.license)
	if err != nil {
		return nil, err
	}
	others, err := r.thirdParty(binaries...)
	return []entry{{name: "LICENSE", mode: 0o644, data: own}, {name: "THIRD-PARTY-LICENSES", mode: 0o644, data: others}}, err
}

// writeArchive puts everything below one directory, so that unpacking it spoils none.
func (r *release) writeArchive(b *binary, more []entry) error {
	dir, archive := archiveOf(b.name, r.version, b.platform)
	write := writeTarGz
	if b.platform.os == "windows" {
		write = writeZip
	}
	files := append([]entry{{name: programOf(b.name, b.platform), mode: 0o755, data: b.data}}, more...)
	for i := range files {
		files[i].name = dir + "/" + files[i].name
	}
	return r.create(archive, func(w io.Writer) error { return write(w, r.date, files) })
}

// archiveOf is the name of an archive, and that of the one directory in it.
func archiveOf(name, version string, p platform) (dir, archive string) {
	dir = strings.Join([]string{name, version, p.os, p.arch}, "-")
	if p.os == "windows" {
		return dir, dir + ".zip"
	}
	return dir, dir + ".tar.gz"
}

// programOf is the name of a program's file.
func programOf(name string, p platform) string {
	if p.os == "windows" {
		return name + ".exe"
	}
	return name
}

// completions asks agentctl for the scripts; their names are those that the shells look for.
func (r *release) completions() ([]entry, error) {
	var out []entry
	for _, c := range []struct{ shell, file string }{{"bash", "agentctl.bash"}, {"zsh", "_agentctl"}, {"fish", "agentctl.fish"}} {
		host, err := filepath.Abs(r.host) // a name without a slash would be looked for in PATH
		if err != nil {
			return nil, err
		}
		var stderr bytes.Buffer
		cmd := exec.Command(host, "completion", c.shell) //nolint:noctx // it prints and ends
		cmd.Stderr = &stderr
		script, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("completion of %s: %w: %s", c.shell, err, strings.TrimSpace(stderr.String()))
		}
		out = append(out, entry{name: "completion/" + c.file, mode: 0o644, data: script})
	}
	return out, nil
}

// writeSums is for sha256sum -c.
func (r *release) writeSums() error {
	slices.Sort(r.written)
	var lines strings.Builder
	for _, name := range r.written {
		data, err := os.ReadFile(filepath.Join(r.out, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(&lines, "%x  %s\n", sha256.Sum256(data), name)
	}
	return r.create("SHA256SUMS", func(w io.Writer) error {
		_, err := io.WriteString(w, lines.String())
		return err
	})
}
