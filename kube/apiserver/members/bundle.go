// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package members

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/roster-mesh/roster/kube/apiserver/datadir"
	"github.com/roster-mesh/roster/kube/apiserver/etcd"
)

const (
	// bundleMagic begins the first line of a bundle; the checksum of the rest follows.
	bundleMagic  = "roster-apiserver bundle"
	bundleFormat = 1
	// Life of a bundle.
	Life = time.Hour
	// maxBundle bounds what is read of a file that somebody calls a bundle.
	maxBundle = 1 << 20
)

// Bundle is what a new server of a cluster starts with. Who can read it can do everything in the cluster.
type Bundle struct {
	Format  int               `json:"format"`
	ID      string            `json:"id"`
	Expires time.Time         `json:"expires"`
	Peer    string            `json:"peer"`    // HOST:PORT at which the others will reach the new server
	Servers []string          `json:"servers"` // HOST:PORT of those that can let it in
	Record  datadir.Record    `json:"record"`  // of the server that wrote the bundle
	Files   map[string][]byte `json:"files"`   // datadir.Shared
}

// Errors of bundles. Each is what a user reads.
var (
	ErrNoBundle = errors.New("it is not a bundle of roster-apiserver")
	ErrDamaged  = errors.New("it is cut off or damaged: copy it again, or write another one with roster-apiserver add")
	ErrExpired  = errors.New("its hour is over: write another one with roster-apiserver add")
	ErrReplaced = errors.New("it no longer counts, after remove-member or since there is a later one for the same address: write another one with roster-apiserver add")
	ErrUsed     = errors.New("another server has used it: write a bundle for each server, with roster-apiserver add")
)

// Encode returns the content of a file.
func (b *Bundle) Encode() ([]byte, error) {
	body, err := json.MarshalIndent(b, "", " ")
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(body)
	return append([]byte(bundleMagic+" "+hex.EncodeToString(sum[:])+"\n"), body...), nil
}

// Decode reads the content of a file, and checks all but the hour.
func Decode(data []byte) (*Bundle, error) {
	first, body, _ := bytes.Cut(data, []byte("\n"))
	sum, ok := bytes.CutPrefix(first, []byte(bundleMagic+" "))
	if !ok {
		return nil, ErrNoBundle
	}
	if is := sha256.Sum256(body); hex.EncodeToString(is[:]) != string(sum) {
		return nil, ErrDamaged
	}
	var b Bundle
	if err := json.Unmarshal(body, &b); err != nil {
		return nil, fmt.Errorf("%w (%w)", ErrDamaged, err)
	}
	if b.Format > bundleFormat {
		return nil, fmt.Errorf("a later version wrote it (format %d, not %d): run that version", b.Format, bundleFormat)
	}
	if b.ID == "" || len(b.Servers) == 0 || b.Expires.IsZero() {
		return nil, fmt.Errorf("%w (a field is missing)", ErrDamaged)
	}
	for _, address := range append([]string{b.Peer}, b.Servers...) {
		if err := etcd.CheckAddress(address); err != nil {
			return nil, fmt.Errorf("%w (%w)", ErrDamaged, err)
		}
	}
	if err := datadir.CheckShared(b.Files); err != nil {
		return nil, fmt.Errorf("%w (%w)", ErrDamaged, err)
	}
	return &b, nil
}

// ReadBundle reads a file.
func ReadBundle(path string) (*Bundle, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxBundle {
		return nil, ErrNoBundle
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return Decode(data)
}

// CheckHour returns an error when the bundle's hour is over by this machine's clock.
func (b *Bundle) CheckHour(now time.Time) error {
	if now.After(b.Expires) {
		return fmt.Errorf("%w (it ended at %s)", ErrExpired, b.Expires.Local().Format(time.DateTime))
	}
	return nil
}
