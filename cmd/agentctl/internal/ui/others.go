// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"golang.org/x/net/netutil"
	"golang.org/x/time/rate"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/ui/visitors"
)

const (
	// connections are open at a time, and streamsOfOne over each of them, where others reach the page.
	connections, streamsOfOne = 256, 16
	// asksOfOthers are the questions why something is not there that are answered at a time: each may read thousands of objects.
	asksOfOthers = 2
	// bodyTimeout bounds how long a client may take to send the body of a request, whether or not anybody reads it.
	bodyTimeout = 10 * time.Second
	// writeTimeout is after how long a client that reads nothing is hung up on, over HTTP/2.
	writeTimeout = 10 * time.Second
)

// forOthers tells whether others than this machine's reach the page.
func (o *Options) forOthers() bool {
	host, _, _ := net.SplitHostPort(o.Listen)
	ip := net.ParseIP(host)
	return host != "localhost" && (ip == nil || !ip.IsLoopback())
}

// validateOthers checks what goes with an address that others reach, and what goes with others.
func (o *Options) validateOthers() error {
	switch others, key := o.forOthers(), o.CertFile != "" || o.KeyFile != ""; {
	case others && (o.CertFile == "" || o.KeyFile == ""):
		return cli.Usagef("--listen %s is an address that others reach: give --tls-cert-file and --tls-private-key-file too, or an address of this machine alone, such as 127.0.0.1:8080", o.Listen)
	case !others && key:
		return cli.Usagef("--tls-cert-file and --tls-private-key-file are for others, who do not reach %s: give another --listen, such as :8443", o.Listen)
	case others && len(o.Contexts) > 0:
		return cli.Usagef("--contexts does not go with --listen %s: what a visitor may read is asked in one cluster alone", o.Listen)
	}
	return nil
}

// invite makes a server one for others: over TLS, for whoever may read what the page shows.
func (o *Options) invite(server *http.Server, b *board, listener net.Listener, out *cli.Output) (net.Listener, error) {
	certificate, err := visitors.LoadCertificate(o.CertFile, o.KeyFile, func(err error) { fmt.Fprintln(out.Stderr, err) })
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	at, p, seldom := b.points[0].client, newPress(), &rate.Sometimes{Interval: time.Minute}
	door := visitors.New(&visitors.Reviewer{Client: at, Failed: func(err error) {
		seldom.Do(func() { fmt.Fprintln(out.Stderr, err) })
	}})
	server.Handler = behind(b, p, door, pages(o, b, p, "/"))
	server.IdleTimeout = 30 * time.Second
	server.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: streamsOfOne, WriteByteTimeout: writeTimeout}
	server.ErrorLog = log.New(panics{out.Stderr}, "", 0)
	fmt.Fprintf(out.Stdout, "The page of context %s is at https://%s/ for whoever shows a token of that cluster, and may read its clusters and rules.\n", at.Context, listener.Addr())
	config := &tls.Config{GetCertificate: certificate.Of, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
	return tls.NewListener(netutil.LimitListener(listener, connections), config), nil
}

// behind is what others are served. Only what tells whether the page works is not behind the door.
func behind(b *board, p *press, door *visitors.Door, inside http.Handler) http.Handler {
	guarded := door.Guard(inside, func(path string) bool { return isAsset(path, "/") }, func(w http.ResponseWriter, r *visitors.RefusalError) {
		p.answer(w, r.Code, "signin", r.Text)
	})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !b.complete() {
			http.Error(w, "the clusters and rules have not been read yet", http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		protect(w.Header())
		guarded.ServeHTTP(w, r)
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout)) // what a server cannot do, as that of a test, no client abuses
		}
		mux.ServeHTTP(w, r)
	})
}

// panics lets through what is a fault of ours. What the server says beside it, as of each handshake that fails, anybody on the
// network could fill the log with.
type panics struct{ to io.Writer }

func (p panics) Write(line []byte) (int, error) {
	if bytes.HasPrefix(line, []byte("http: panic")) || bytes.HasPrefix(line, []byte("http2: panic")) {
		return p.to.Write(line)
	}
	return len(line), nil
}

// cameByForm tells whether the visitor can sign out.
func cameByForm(r *http.Request) bool {
	v, _ := visitors.Of(r.Context())
	return v.Form
}

// questionOf is a question by who asks. Others ask with their own token: what the page itself may read is not theirs to see.
func (s *site) questionOf(ctx context.Context) (Question, error) {
	q := s.asked
	if !s.others {
		return q, nil
	}
	v, ok := visitors.Of(ctx)
	if !ok || v.Token == "" {
		return Question{}, errors.New("nobody has said who asks")
	}
	q.Access = clusters.Access{Kubeconfig: q.Kubeconfig, Context: q.Context, Token: v.Token}
	return q, nil
}
