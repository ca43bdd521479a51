// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fetch stands in for github.com/fluxcd/pkg/http/fetch, with what kustomize-controller needs to get an artifact of a source: it
// downloads once, into memory, knows SHA-256 only, and extracts by Flux's own package tar.
package fetch

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/fluxcd/pkg/tar"
	"github.com/go-logr/logr"
)

var (
	// ErrFileNotFound is returned when the server has no such artifact, any more.
	ErrFileNotFound = errors.New("artifact not found")
	// ErrDigestMismatch is returned when the artifact is another one than was meant.
	ErrDigestMismatch = errors.New("artifact has another digest")
)

// Fetcher downloads and extracts artifacts.
type Fetcher struct {
	client *http.Client
	untar  []tar.Option
}

// Option changes how a Fetcher works.
type Option func(*Fetcher)

// New returns a Fetcher with all options applied.
func New(options ...Option) *Fetcher {
	f := &Fetcher{client: http.DefaultClient}
	for _, option := range options {
		option(f)
	}
	return f
}

// FetchWithContext extracts into a folder what is at a URL.
func (f *Fetcher) FetchWithContext(ctx context.Context, url, digest, folder string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := f.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	switch response.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		return fmt.Errorf("%w: %s", ErrFileNotFound, url)
	default:
		return fmt.Errorf("get %s: %s", url, response.Status)
	}
	archive, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("get %s: %w", url, err)
	}
	if sum := fmt.Sprintf("sha256:%x", sha256.Sum256(archive)); sum != digest {
		return fmt.Errorf("%w: %s is %s, not %s", ErrDigestMismatch, url, sum, digest)
	}
	return tar.Untar(bytes.NewReader(archive), folder, f.untar...)
}

// WithUntar has archives extracted with these options.
func WithUntar(options ...tar.Option) Option { return func(f *Fetcher) { f.untar = options } }

// WithTLSConfig has servers spoken to so.
func WithTLSConfig(config *tls.Config) Option {
	return func(f *Fetcher) { f.client = &http.Client{Transport: &http.Transport{TLSClientConfig: config}} }
}

// WithLogger does nothing: nothing is logged.
func WithLogger(logr.Logger) Option { return nothing }

// WithRetries does nothing: the controller reconciles again.
func WithRetries(int) Option { return nothing }

// WithMaxDownloadSize does nothing: the controller sets no limit.
func WithMaxDownloadSize(int) Option { return nothing }

// WithHostnameOverwrite does nothing: the controller has an empty name, unless it is told otherwise by its environment.
func WithHostnameOverwrite(string) Option { return nothing }

func nothing(*Fetcher) {}
