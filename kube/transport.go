// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

// A server that stops to answer is noticed after pingAfter + pingTimeout, plus dialTimeout for the
// attempt to reach it again.
const (
	pingAfter   = 15 * time.Second
	pingTimeout = 15 * time.Second
	dialTimeout = 10 * time.Second
	// headerTimeout is a little more than an API server's own request timeout (one minute).
	headerTimeout = 65 * time.Second
	// maxResponse bounds one response, in bytes, so that a hostile API server cannot use up all memory.
	// A page of a list is smaller: pageSize objects of the largest size that etcd stores (1.5 MiB). An
	// event of a watch is bounded by package codec and by client-go, at 16 MiB.
	maxResponse = 256 << 20
	// maxRetryAfter bounds how long an API server can make client-go wait, in seconds.
	maxRetryAfter = 10
)

// newHTTPClient returns a client with a connection pool of its own. client-go would share pools
// through a cache that is never emptied, while peers' credentials are replaced; and with its defaults a
// dead server is noticed after 75 seconds.
func newHTTPClient(cfg *rest.Config) (*http.Client, *http.Transport, error) {
	tlsConfig, err := rest.TLSConfigFor(cfg)
	if err != nil {
		return nil, nil, fmt.Errorf("TLS settings: %w", err)
	}
	if tlsConfig == nil {
		tlsConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	dial, proxy := cfg.Dial, cfg.Proxy
	if dial == nil {
		dial = (&net.Dialer{
			KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3},
		}).DialContext
	}
	if proxy == nil {
		proxy = utilnet.NewProxierWithNoProxyCIDR(http.ProxyFromEnvironment)
	}
	pool := &http.Transport{
		Proxy: proxy,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, dialTimeout)
			defer cancel()
			return dial(ctx, network, address)
		},
		TLSClientConfig:       tlsConfig,
		TLSHandshakeTimeout:   dialTimeout,
		ResponseHeaderTimeout: headerTimeout,
		IdleConnTimeout:       90 * time.Second,
		MaxIdleConnsPerHost:   25,
		DisableCompression:    cfg.DisableCompression,
		ForceAttemptHTTP2:     true,
		HTTP2:                 &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
	}
	wrapped, err := rest.HTTPWrappersForConfig(cfg, &boundedTransport{pool})
	if err != nil {
		return nil, nil, fmt.Errorf("credential: %w", err)
	}
	return &http.Client{
		Transport: wrapped,
		// An API server does not redirect; following one would carry the credential elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, pool, nil
}

// boundedTransport bounds what a server can send, and returns failures of the connection as
// connectionErrors. That keeps client-go from retrying them silently: a watch would look open and empty
// for minutes, and a read would be retried ten times.
type boundedTransport struct{ next http.RoundTripper }

func (t *boundedTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	watch := strings.Contains(req.URL.RawQuery, "watch=true")
	if watch { // what decompresses one takes 44 KiB for as long as it is open, and there may be thousands
		req = req.Clone(req.Context())
		req.Header.Set("Accept-Encoding", "identity")
	}
	resp, err := t.next.RoundTrip(req)
	if err != nil {
		if req.Context().Err() != nil {
			return nil, err
		}
		return nil, &connectionError{err}
	}
	if after := resp.Header.Get("Retry-After"); after != "" {
		seconds, err := strconv.Atoi(after)
		switch {
		case watch:
			// Watch has its own back-off, and reports the error.
			resp.Header.Del("Retry-After")
		case err != nil || seconds > maxRetryAfter:
			resp.Header.Set("Retry-After", strconv.Itoa(maxRetryAfter))
		}
	}
	left := int64(maxResponse)
	if watch && resp.StatusCode == http.StatusOK {
		left = -1
	}
	resp.Body = &boundedBody{ReadCloser: resp.Body, ctx: req.Context, left: left}
	return resp, nil
}

// WrappedRoundTripper lets client-go find the transport underneath.
func (t *boundedTransport) WrappedRoundTripper() http.RoundTripper { return t.next }

// boundedBody returns an error after left bytes. A negative left is a watch, which has no bound. When
// its connection fails it returns io.ErrUnexpectedEOF, so that the reflector resumes the watch instead
// of listing everything again.
type boundedBody struct {
	io.ReadCloser
	ctx  func() context.Context
	left int64
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, fmt.Errorf("response larger than %d MiB", maxResponse>>20)
	}
	if b.left > 0 && int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.ReadCloser.Read(p)
	if b.left > 0 {
		b.left -= int64(n)
	}
	if err != nil && err != io.EOF && b.ctx().Err() == nil {
		if b.left < 0 {
			return n, io.ErrUnexpectedEOF
		}
		return n, &connectionError{err}
	}
	return n, err
}

// connectionError is a failure of the connection. errors.Is finds its cause, but errors.As does not: with
// that client-go would find out that it can retry.
type connectionError struct{ cause error }

func (e *connectionError) Is(target error) bool { return errors.Is(e.cause, target) }

func (e *connectionError) Error() string {
	var (
		dns       *net.DNSError
		netErr    net.Error
		authority x509.UnknownAuthorityError
		hostname  x509.HostnameError
		invalid   x509.CertificateInvalidError
	)
	switch {
	case errors.Is(e.cause, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.As(e.cause, &dns):
		return "the name does not resolve"
	case errors.As(e.cause, &authority):
		return "its certificate is not signed by the CA that was given for it"
	case errors.As(e.cause, &hostname):
		return "its certificate is for another name"
	case errors.As(e.cause, &invalid):
		if invalid.Reason == x509.Expired { // the text of the error has the current time in it, and would differ each time
			return "its certificate has expired or is not valid yet, or the clock of this machine is wrong"
		}
		return "its certificate is not valid: " + oneLine(invalid.Error())
	case errors.As(e.cause, &netErr) && netErr.Timeout(), utilnet.IsHTTP2ConnectionLost(e.cause):
		return "no answer in time"
	case errors.Is(e.cause, io.EOF), errors.Is(e.cause, syscall.ECONNRESET), utilnet.IsProbableEOF(e.cause):
		return "it closed the connection"
	}
	return oneLine(e.cause.Error())
}
