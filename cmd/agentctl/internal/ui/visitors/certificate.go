// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package visitors

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"
)

// reread is how often the files are looked at, at most: with a handshake.
const reread = 10 * time.Second

// Certificate is a certificate and its key in two files, read again when they have changed, as those of a mounted Secret do.
// It is safe for use by several goroutines.
type Certificate struct {
	certFile, keyFile string
	failed            func(error) // told of each change that cannot be used. What was there before stays in use

	mu     sync.Mutex
	pair   *tls.Certificate
	read   []byte // both files, as they were read last; nil where they could not be
	looked time.Time
}

// LoadCertificate reads the files.
func LoadCertificate(certFile, keyFile string, failed func(error)) (*Certificate, error) {
	c := &Certificate{certFile: certFile, keyFile: keyFile, failed: failed, looked: time.Now()}
	if _, err := c.load(); err != nil {
		return nil, fmt.Errorf("read the certificate of the page: %w", err)
	}
	return c, nil
}

// Of is for the configuration of a TLS server.
func (c *Certificate) Of(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.looked) >= reread {
		c.looked = time.Now()
		if changed, err := c.load(); changed && err != nil {
			c.failed(fmt.Errorf("the certificate of the page cannot be read again, and stays as it was: %w", err))
		}
	}
	return c.pair, nil
}

// load reads the files, and takes what is in them if they have changed.
func (c *Certificate) load() (changed bool, err error) {
	cert, err := os.ReadFile(c.certFile)
	var key []byte
	if err == nil {
		key, err = os.ReadFile(c.keyFile)
	}
	if err != nil {
		changed, c.read = c.read != nil, nil
		return changed, err
	}
	read := slices.Concat(cert, key)
	if bytes.Equal(read, c.read) {
		return false, nil
	}
	c.read = read
	pair, err := tls.X509KeyPair(cert, key)
	if err == nil {
		c.pair = &pair
	}
	return true, err
}
