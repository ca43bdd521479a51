// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"time"

	"k8s.io/client-go/rest"
)

const (
	// peerTimeout bounds each request to another cluster: one that is away must not stop the command.
	peerTimeout = 8 * time.Second
	// MaxAnswer bounds one answer of another cluster, in bytes, where objects of any kind are read: it is not trusted to be
	// modest.
	MaxAnswer = 64 << 20
)

// Bounded is a configuration for a cluster that is not trusted: each of its answers is bounded in time, and in bytes.
func Bounded(config *rest.Config, maxAnswer int64) *rest.Config {
	return bounded(config, peerTimeout, maxAnswer)
}

// BoundedInSize is the same without a bound in time, for watches: one that has said so much ends, and starts again.
func BoundedInSize(config *rest.Config) *rest.Config { return bounded(config, 0, MaxAnswer) }

func bounded(config *rest.Config, timeout time.Duration, maxAnswer int64) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return boundedTransport{next, timeout, maxAnswer} })
	return config
}

type boundedTransport struct {
	next      http.RoundTripper
	timeout   time.Duration // 0 for none
	maxAnswer int64
}

// WrappedRoundTripper lets the connections below be found.
func (t boundedTransport) WrappedRoundTripper() http.RoundTripper { return t.next }

func (t boundedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	timeout := t.timeout
	if timeout == 0 {
		timeout = math.MaxInt64
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	response, err := t.next.RoundTrip(r.WithContext(ctx))
	if err != nil {
		cancel()
		return nil, err
	}
	response.Body = struct {
		*maxReader
		*closer
	}{&maxReader{response.Body, t.maxAnswer, t.maxAnswer}, &closer{response.Body, cancel}}
	return response, nil
}

// maxReader fails, rather than ends, when there is more than may be read.
type maxReader struct {
	from      io.Reader
	left, max int64
}

func (r *maxReader) Read(p []byte) (int, error) {
	if r.left <= 0 {
		return 0, fmt.Errorf("the answer is larger than %d MiB", r.max>>20)
	}
	n, err := r.from.Read(p[:min(int64(len(p)), r.left)])
	r.left -= int64(n)
	return n, err
}

// closer ends the request with its body.
type closer struct {
	body   io.Closer
	cancel context.CancelFunc
}

func (c *closer) Close() error {
	defer c.cancel()
	return c.body.Close()
}
