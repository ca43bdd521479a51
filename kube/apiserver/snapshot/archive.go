// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package snapshot saves all that a standalone server has into one file, and makes a data directory of it again.
//
// The file is a tar archive: what datadir.Identity returns, the snapshot of etcd, and a manifest with the checksum of each
// of them, which comes last. So a file that was cut off has no manifest.
//
//	server.json              datadir.Record; always first
//	pki/..., encryption.yaml datadir.Identity
//	etcd.db                  etcd's database, followed by its SHA-256, as etcdctl saves it
//	manifest.json            Manifest
//
// A restored server has the keys of the one that was saved, so that clients and tokens go on to work. It is alone: it has
// another etcd cluster ID and will have another CA for peers, so that a server that was a member before is not taken for
// one.
package snapshot

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"time"

	"github.com/roster-mesh/roster/kube/apiserver/datadir"
)

const (
	format       = 1
	nameRecord   = "server.json"
	nameDatabase = "etcd.db"
	nameManifest = "manifest.json"
	// maxFile bounds every file but the database.
	maxFile = 1 << 20
	// maxFiles bounds how many there are: some more than this version has, since a later version is told apart by the
	// manifest, which comes last.
	maxFiles = 32
	maxName  = 100
)

// Errors of files that are no snapshots. Each is what a user reads.
var (
	ErrForeign = errors.New("it is not a snapshot that roster-apiserver has saved")
	ErrDamaged = errors.New("it is cut off or damaged")
)

// Manifest says what a snapshot has.
type Manifest struct {
	Format int               `json:"format"`
	Saved  time.Time         `json:"saved"`
	Sums   map[string]string `json:"sums"` // SHA-256 in hexadecimal, by name
}

// writer writes a snapshot.
type writer struct {
	to       *tar.Writer
	manifest Manifest
}

func newWriter(to io.Writer, now time.Time) *writer {
	return &writer{to: tar.NewWriter(to), manifest: Manifest{Format: format, Saved: now.UTC(), Sums: map[string]string{}}}
}

// add writes a file of exactly that size.
func (w *writer) add(name string, size int64, from io.Reader) error {
	header := &tar.Header{Name: name, Mode: 0o600, Size: size, ModTime: w.manifest.Saved, Format: tar.FormatGNU}
	if err := w.to.WriteHeader(header); err != nil {
		return err
	}
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(w.to, sum), from)
	if err == nil && n != size {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	w.manifest.Sums[name] = hex.EncodeToString(sum.Sum(nil))
	return nil
}

// close writes the manifest, without which nothing counts.
func (w *writer) close() error {
	data, err := json.Marshal(w.manifest)
	if err != nil {
		return err
	}
	header := &tar.Header{Name: nameManifest, Mode: 0o600, Size: int64(len(data)), ModTime: w.manifest.Saved, Format: tar.FormatGNU}
	if err := w.to.WriteHeader(header); err != nil {
		return err
	}
	_, err = w.to.Write(data)
	return errors.Join(err, w.to.Close())
}

// content is what a snapshot has, but for the database.
type content struct {
	record datadir.Record
	files  map[string][]byte // datadir.Identity
	saved  time.Time
}

// read reads a whole file and checks it. The database is written to a writer, and counts if no error is returned.
func read(path string, database io.Writer) (*content, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	from := tar.NewReader(f)
	files, sums := map[string][]byte{}, map[string]string{}
	for {
		header, err := from.Next()
		if err != nil && len(sums) == 0 {
			return nil, ErrForeign
		}
		if err != nil {
			return nil, fmt.Errorf("%w (%w)", ErrDamaged, err)
		}
		if len(sums) == 0 && header.Name != nameRecord {
			return nil, ErrForeign
		}
		// A file with holes has more than the archive.
		if len(sums) == maxFiles || sums[header.Name] != "" || header.Typeflag != tar.TypeReg || header.Size > info.Size() || len(header.Name) > maxName {
			return nil, fmt.Errorf("%w (%.40q is unexpected)", ErrDamaged, header.Name)
		}
		sum := sha256.New()
		switch header.Name {
		case nameManifest:
			manifest, err := readManifest(from, sums)
			if err != nil {
				return nil, err
			}
			return newContent(files, manifest.Saved)
		case nameDatabase:
			err = readDatabase(from, database, sum)
		default:
			if header.Size > maxFile {
				return nil, fmt.Errorf("%w (%.40q is unexpected)", ErrDamaged, header.Name)
			}
			if files[header.Name], err = io.ReadAll(io.TeeReader(from, sum)); err != nil {
				err = fmt.Errorf("%w (%w)", ErrDamaged, err)
			}
		}
		if err != nil {
			return nil, err
		}
		sums[header.Name] = hex.EncodeToString(sum.Sum(nil))
	}
}

// writeError is one of the disk that is written to, not of the snapshot.
type writeError struct{ error }

func readDatabase(from io.Reader, to io.Writer, sum hash.Hash) error {
	_, err := io.Copy(io.MultiWriter(sum, failing{to}), from)
	if w := (*writeError)(nil); errors.As(err, &w) {
		return w.error
	}
	if err != nil {
		return fmt.Errorf("%w (%w)", ErrDamaged, err)
	}
	return nil
}

// failing marks the errors of a writer.
type failing struct{ io.Writer }

// Write implements io.Writer.
func (f failing) Write(p []byte) (int, error) {
	n, err := f.Writer.Write(p)
	if err != nil {
		err = &writeError{err}
	}
	return n, err
}

func readManifest(from io.Reader, sums map[string]string) (Manifest, error) {
	var m Manifest
	if err := json.NewDecoder(io.LimitReader(from, maxFile)).Decode(&m); err != nil {
		return m, fmt.Errorf("%w (%s: %w)", ErrDamaged, nameManifest, err)
	}
	if m.Format > format {
		return m, fmt.Errorf("a later version saved it (format %d, not %d): run that version", m.Format, format)
	}
	for name := range m.Sums {
		if sums[name] == "" {
			return m, fmt.Errorf("%w (%s is missing)", ErrDamaged, name)
		}
	}
	for name, sum := range sums {
		if m.Sums[name] != sum {
			return m, fmt.Errorf("%w (%s has a wrong checksum)", ErrDamaged, name)
		}
	}
	if sums[nameDatabase] == "" {
		return m, fmt.Errorf("%w (%s is missing)", ErrDamaged, nameDatabase)
	}
	return m, nil
}

func newContent(files map[string][]byte, saved time.Time) (*content, error) {
	c := &content{files: files, saved: saved}
	if err := json.Unmarshal(files[nameRecord], &c.record); err != nil {
		return nil, fmt.Errorf("%w (%s: %w)", ErrDamaged, nameRecord, err)
	}
	delete(files, nameRecord)
	if err := datadir.CheckShared(files); err != nil {
		return nil, fmt.Errorf("%w (%w)", ErrDamaged, err)
	}
	return c, nil
}
