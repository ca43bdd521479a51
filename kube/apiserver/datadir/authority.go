// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/roster-mesh/roster/kube/pki"
)

// The files of a CA that is brought, as in a Secret of type kubernetes.io/tls.
const (
	broughtCert = "tls.crt"
	broughtKey  = "tls.key"
)

// ErrOtherAuthority is returned when a directory belongs to another CA than the one that is brought.
var ErrOtherAuthority = errors.New("it is not the CA that this server and its clients have")

// ImportAuthority makes the CA in another directory, in tls.crt and tls.key, that of this one, which has none yet. When it
// has the same one nothing is done. What it refuses it leaves as it is.
func (d *Dir) ImportAuthority(from string, now time.Time) error {
	brought, err := readAuthority(from, now)
	if err != nil {
		return err
	}
	have, err := d.readPair(authority)
	switch {
	case err == nil && have.Cert.Equal(brought.Cert):
		return nil
	case err == nil:
		return fmt.Errorf("%w (%s)", ErrOtherAuthority, d.PairFile(authority))
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	serving, err := d.readPair(Serving)
	switch {
	case errors.Is(err, fs.ErrNotExist): // a first start
		if ends := brought.Cert.NotAfter; ends.Before(now.Add(pki.LeafLife)) {
			return fmt.Errorf("its certificate ends on %s: a server begins with a CA that lives for a year at least", ends.UTC().Format(time.DateOnly))
		}
	case err != nil:
		return err
	case serving.Cert.CheckSignatureFrom(brought.Cert) != nil:
		return fmt.Errorf("%w: it has not signed %s", ErrOtherAuthority, d.PairFile(Serving))
	}
	if err := os.MkdirAll(d.Path("pki"), dirMode); err != nil {
		return err
	}
	return d.keepPair(authority, brought)
}

// readAuthority reads a CA that somebody else made.
func readAuthority(dir string, now time.Time) (pki.Pair, error) {
	var data []byte
	for _, name := range []string{broughtCert, broughtKey} {
		part, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return pki.Pair{}, err
		}
		data = append(append(data, part...), '\n')
	}
	brought, err := pki.Parse(data)
	if err != nil {
		return pki.Pair{}, fmt.Errorf("%s and %s: %w", broughtCert, broughtKey, err)
	}
	return brought, brought.CheckAuthority(now)
}
