// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"io"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/roster-mesh/roster/e2e/harness"
)

// watchEnd begins to look when alpha and beta end what a key, and the credentials of its cluster for them, have. What it returns is called once
// the removal was ordered: it waits for all that, and fails where it took too long.
func (g *group) watchEnd(t *testing.T, key ed25519.PrivateKey, credentials ...*rest.Config) (wait func(t *testing.T)) {
	t.Helper()
	type end struct {
		what        string
		limit, took time.Duration
	}
	members := []*harness.Cluster{g.alpha, g.beta}
	connections := make([]*tls.Conn, len(members))
	for i, c := range members {
		if connections[i] = taken(t, c, key); connections[i] == nil {
			t.Fatal("the member is refused by", c.Name)
		}
	}
	began, ends, slowest := time.Now(), make(chan end), roundTrips(t, g.alpha)
	watch := func(what string, limit time.Duration, over func(i int) bool) {
		for i, c := range members {
			go func() {
				for !over(i) && time.Since(began) < within {
					time.Sleep(50 * time.Millisecond) // the end has no event to wait for
				}
				ends <- end{what + " " + c.Name, limit, time.Since(began)}
			}()
		}
	}
	watch("the connection is ended by", detached, func(i int) bool {
		defer connections[i].Close()
		_, _ = io.Copy(io.Discard, connections[i]) // else its deadline comes, which is within
		return true
	})
	watch("the key is refused by", detached, func(i int) bool {
		conn := taken(t, members[i], key)
		if conn != nil {
			conn.Close() //nolint:errcheck // It was taken, which is all.
		}
		return conn == nil
	})
	watch("the credential is refused by", revoked, func(i int) bool { return apierrors.IsUnauthorized(canRead(lasting(t), credentials[i])) })
	return func(t *testing.T) {
		t.Helper()
		t.Logf("confirmed by all after %v", time.Since(began))
		var all []end
		for range 3 * len(members) {
			all = append(all, <-ends)
		}
		most := slowest()
		for _, e := range all {
			t.Logf("%7.3f s  %s", e.took.Seconds(), e.what)
			if limit := e.limit + slack*most; e.took > limit {
				t.Errorf("%s after %v; %v is most where a request takes up to %v", e.what, e.took, limit, most)
			}
		}
	}
}

// roundTrips asks an API server again and again, over a new connection each time, and returns what ends that and tells how long the slowest
// request took.
func roundTrips(t *testing.T, c *harness.Cluster) (slowest func() time.Duration) {
	t.Helper()
	return sampled(t, func(ctx context.Context) (time.Duration, error) {
		began := time.Now()
		_ = canRead(ctx, c.Config) // where it fails, what it took counts all the same
		return time.Since(began), nil
	})
}

// taken is a connection that an agent has taken from who has a key, and speaks on; nil when it refuses that one. The agent looks at the key
// after the handshake is done for the caller.
func taken(t *testing.T, c *harness.Cluster, key ed25519.PrivateKey) *tls.Conn {
	t.Helper()
	conn := shake(t, c, key, "h2")
	if conn == nil {
		return nil
	}
	if _, err := conn.Read(make([]byte, 1)); err != nil {
		conn.Close() //nolint:errcheck // It was refused.
		return nil
	}
	return conn
}
