// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package datadir

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// Files that etcd's data is useless without, by their path in the directory: every client trusts the CA, every
// ServiceAccount token is signed with the key, and Secrets are encrypted with what encryption.yaml says. There is no
// encryption.yaml where --encryption-provider-config names another file.
const (
	fileCA         = "pki/" + authority + ".pem"
	fileTokenKey   = "pki/" + serviceAccount + ".key"
	fileEncryption = "encryption.yaml"
	// filePeerCA is not of that kind: it is the CA of the servers of this cluster for one another.
	filePeerCA = "pki/" + peerAuthority + ".pem"
)

// Identity are the files that make a copy of etcd's data this cluster, by their path in the directory.
func (d *Dir) Identity() (map[string][]byte, error) {
	return d.read(fileCA, fileTokenKey, fileEncryption)
}

// Fingerprint is the same for directories with the same CA and key of ServiceAccount tokens, and tells nothing of them.
func (d *Dir) Fingerprint() (string, error) {
	files, err := d.read(fileCA, fileTokenKey)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	for _, name := range []string{fileCA, fileTokenKey} {
		one := sha256.Sum256(files[name])
		sum.Write(one[:])
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// Shared are the files that all servers of a cluster have in common: Identity, and the CA by which they know each other.
func (d *Dir) Shared() (map[string][]byte, error) {
	return d.read(fileCA, fileTokenKey, fileEncryption, filePeerCA)
}

func (d *Dir) read(names ...string) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, name := range names {
		data, err := os.ReadFile(d.Path(filepath.FromSlash(name)))
		if errors.Is(err, fs.ErrNotExist) && name == fileEncryption {
			continue
		}
		if err != nil {
			return nil, err
		}
		files[name] = data
	}
	return files, nil
}

// CheckShared returns an error unless the files are such as Shared or Identity returns: a file that somebody brings must
// not decide where it is written.
func CheckShared(files map[string][]byte) error {
	for name, data := range files {
		if !slices.Contains([]string{fileCA, fileTokenKey, fileEncryption, filePeerCA}, name) {
			return fmt.Errorf("it has a file %q, which is none of a cluster", name)
		}
		if len(data) == 0 {
			return fmt.Errorf("its %s is empty", name)
		}
	}
	for _, name := range []string{fileCA, fileTokenKey} {
		if files[name] == nil {
			return fmt.Errorf("it has no %s", name)
		}
	}
	return nil
}

// WriteShared writes the files of another server of the same cluster into a directory that has no data. What a start that
// was cut off has written is written again. Without encryption.yaml among them, EnsureEncryption makes no key: the data
// that is to come is encrypted with another one, or with none.
func (d *Dir) WriteShared(files map[string][]byte) error {
	if err := CheckShared(files); err != nil {
		return err
	}
	for _, dir := range []string{"pki", "etcd"} {
		if err := os.MkdirAll(d.Path(dir), dirMode); err != nil {
			return err
		}
	}
	if err := os.Remove(d.Path(fileEncryption)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for name, data := range files {
		if err := WriteFile(d.Path(filepath.FromSlash(name)), data); err != nil {
			return err
		}
	}
	return nil
}
