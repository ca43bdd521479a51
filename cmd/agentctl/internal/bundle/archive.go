// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"time"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
)

const (
	// maxPart bounds what is kept of one member, in bytes before they are compressed.
	maxPart = 16 << 20
	// maxArchive bounds the compressed parts: nobody is asked any more when they take more.
	maxArchive = 256 << 20
)

// part is some files of the archive, compressed as they come. Parts follow each other in it: streams of gzip may.
type part struct {
	folder string
	names  []string
	left   int

	buffer bytes.Buffer
	gz     *gzip.Writer
	tar    *tar.Writer
}

// newPart returns an empty part; folder ends with a slash, or is "".
func newPart(folder string) *part {
	p := &part{folder: folder, left: maxPart}
	p.gz = gzip.NewWriter(&p.buffer)
	p.tar = tar.NewWriter(p.gz)
	return p
}

// add adds a file, as text that steers no terminal and has no credential in it.
func (p *part) add(name string, data []byte) error {
	var text bytes.Buffer
	if _, err := (cli.Printable{To: &text}).Write(withoutCredentials(data)); err != nil {
		return err
	}
	if text.Len() > p.left { // it may be longer than data
		return fmt.Errorf("it does not fit into the %d MiB of one member", maxPart>>20)
	}
	p.left -= text.Len()
	name = p.folder + name
	// The time of a file is when its content was written, which is known for none.
	if err := p.tar.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(text.Len()), ModTime: time.Unix(0, 0), Format: tar.FormatPAX}); err != nil {
		return err
	}
	p.names = append(p.names, name)
	_, err := text.WriteTo(p.tar)
	return err
}

// close ends a part that others follow.
func (p *part) close() ([]byte, error) {
	err := errors.Join(p.tar.Flush(), p.gz.Close())
	return p.buffer.Bytes(), err
}

// end ends the last part, and the archive.
func (p *part) end() ([]byte, error) {
	err := errors.Join(p.tar.Close(), p.gz.Close())
	return p.buffer.Bytes(), err
}

// asJSON is v for a file.
func asJSON(v any) ([]byte, error) {
	var data bytes.Buffer
	err := (&cli.Output{Stdout: &data, Format: "json"}).Document(v)
	return data.Bytes(), err
}
