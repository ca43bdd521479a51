// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

// BenchmarkAsk asks all members of a group, and over the time of the same requests without anything else (×bare): one connection for
// each member, as many at a time, and nobody reads what is answered.
func BenchmarkAsk(b *testing.B) {
	for _, members := range []int{5, 500} {
		b.Run(fmt.Sprintf("members=%d", members), func(b *testing.B) {
			g := newGroup(b, members)
			for range members {
				g.own = append(g.own, g.serve(b))
			}
			close(g.held)
			g.most = members
			group := g.ask(b)
			var asked, bare time.Duration
			for b.Loop() {
				start := time.Now()
				answers, err := Ask(b.Context(), group, rulesOf)
				if err != nil || len(Unknowns(answers)) > 0 {
					b.Fatal(err, Unknowns(answers))
				}
				between := time.Now()
				if err := g.bare(b.Context()); err != nil {
					b.Fatal(err)
				}
				asked, bare = asked+between.Sub(start), bare+time.Since(between)
			}
			b.ReportMetric(float64(asked.Microseconds())/1000/float64(b.N), "ms/question")
			b.ReportMetric(asked.Seconds()/bare.Seconds(), "×bare")
		})
	}
}

// bare sends the requests that a question takes.
func (g *group) bare(ctx context.Context) error {
	const rules = "/apis/clusterregistry.k8s.cisco.com/v1alpha1/resourcesyncrules"
	var all errgroup.Group
	all.SetLimit(maxMembers)
	own := g.client()
	defer own.CloseIdleConnections()
	if err := get(ctx, own, g.url(0), 0, "/apis/clusterregistry.k8s.cisco.com/v1alpha1/clusters"); err != nil {
		return err
	}
	for i := range g.members {
		all.Go(func() error {
			c := own
			if i > 0 {
				if err := get(ctx, own, g.url(0), 0, "/api/v1/namespaces/cluster-registry-private/secrets/peer-id-"+name(i)); err != nil {
					return err
				}
				c = g.client()
				defer c.CloseIdleConnections()
			}
			for _, path := range []string{"/api/v1/namespaces/kube-system", rules, rules + "?continue=two"} {
				if err := get(ctx, c, g.url(i), i, path); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return all.Wait()
}

func (g *group) client() *http.Client {
	roots := x509.NewCertPool()
	roots.AddCert(g.Certificate())
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13}, ForceAttemptHTTP2: true}}
}

func get(ctx context.Context, c *http.Client, url string, member int, path string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+path, http.NoBody)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer token-of-"+name(member))
	answer, err := c.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	return err
}
