// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math/big"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/roster-mesh/roster/e2e/harness"
)

// mayGrow is how much memory an agent may take in under all of this: hundreds of connections at once, each
// with its TLS state.
const mayGrow = 64 << 20

// TestHostileMeshPort: what strangers and a corrupted member send to the mesh port is dropped and counted,
// takes bounded memory, and disturbs nobody.
func TestHostileMeshPort(t *testing.T) {
	g := joined(t)
	g.cleanUp(t, "meanwhile")
	before := residentMemory(t, g.alpha)
	t.Run("garbage", func(t *testing.T) {
		counted(t, g.alpha, "garbage", func() { everyone(t, 50, func() { talk(t, g.alpha, garbage(4096)) }) })
		talk(t, g.alpha, []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"))
	})
	t.Run("unknown key", func(t *testing.T) {
		_, key, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		counted(t, g.alpha, "unpinned", func() {
			everyone(t, 50, func() {
				for _, protocol := range []string{"roster-packet/1", "roster-stream/1", "h2"} {
					if conn := shake(t, g.alpha, key, protocol); conn != nil {
						if _, err := conn.Read(make([]byte, 1)); err == nil {
							t.Error("a stranger was answered")
						}
						conn.Close() //nolint:errcheck // It was refused.
					}
				}
			})
		})
	})
	t.Run("silence", func(t *testing.T) {
		conns := make([]net.Conn, 400)
		for i := range conns {
			conns[i] = dial(t, g.alpha)
			defer conns[i].Close()
		}
		g.share(t, "meanwhile", "one")
	})
	t.Run("oversized frames of a member", func(t *testing.T) { oversized(t, g) })
	if grown := residentMemory(t, g.alpha) - before; grown > mayGrow {
		t.Errorf("the agent has grown by %d MiB", grown>>20)
	}
	if err := g.alpha.AgentAlive(t.Context()); err != nil {
		t.Error(err)
	}
	g.eventuallyWhole(t, afterFault)
}

// oversized plays gamma with its stolen key.
func oversized(t *testing.T, g *group) {
	key := privateKey(t, g.gamma)
	counted(t, g.alpha, "oversized", func() {
		everyone(t, 10, func() {
			conn := shake(t, g.alpha, key, "roster-packet/1")
			if conn == nil {
				return
			}
			defer conn.Close()
			conn.Write(append([]byte{1, 0xff, 0xff, 0xff}, garbage(64<<10)...)) //nolint:errcheck // It may be cut off.
		})
	})
	everyone(t, 10, func() {
		for _, protocol := range []string{"roster-packet/1", "roster-stream/1", "h2"} {
			if conn := shake(t, g.alpha, key, protocol); conn != nil {
				conn.Write(garbage(64 << 10)) //nolint:errcheck // It may be cut off.
				conn.Close()                  //nolint:errcheck // As above.
			}
		}
	})
}

func everyone(t *testing.T, n int, do func()) {
	t.Helper()
	var all sync.WaitGroup
	for range n {
		all.Go(do)
	}
	all.Wait()
}

// counted expects that a reason's drop counter grows.
func counted(t *testing.T, c *harness.Cluster, reason string, do func()) {
	t.Helper()
	before, err := drops(t.Context(), c, reason)
	if err != nil {
		t.Fatal(err)
	}
	do()
	eventually(t, "drops are counted as "+reason, within, func(ctx context.Context) error {
		now, err := drops(ctx, c, reason)
		if err == nil && now <= before {
			err = fmt.Errorf("the counter is still %v", now)
		}
		return err
	})
}

func drops(ctx context.Context, c *harness.Cluster, reason string) (float64, error) {
	page, err := c.AgentHTTP(ctx, "/metrics")
	if err != nil {
		return 0, err
	}
	for lines := bufio.NewScanner(strings.NewReader(page)); lines.Scan(); {
		if value, found := strings.CutPrefix(lines.Text(), fmt.Sprintf("roster_mesh_drops_total{reason=%q} ", reason)); found {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, nil // never so far
}

func dial(t *testing.T, c *harness.Cluster) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{Timeout: within}).DialContext(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", c.MeshPort))
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// talk sends bytes and waits until the other end has had enough, or does not care.
func talk(t *testing.T, c *harness.Cluster, data []byte) {
	t.Helper()
	conn := dial(t, c)
	defer conn.Close()
	conn.Write(data)                                             //nolint:errcheck // It may be cut off.
	conn.SetReadDeadline(time.Now().Add(200 * time.Millisecond)) //nolint:errcheck // A TCP connection has deadlines.
	conn.Read(make([]byte, 512))                                 //nolint:errcheck // Whatever it is.
}

// shake does a TLS handshake as an agent does; nil when it is refused at once.
func shake(t *testing.T, c *harness.Cluster, key ed25519.PrivateKey, protocol string) *tls.Conn {
	t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Error(err)
		return nil
	}
	conn := tls.Client(dial(t, c), &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{protocol}, InsecureSkipVerify: true, //nolint:gosec // The server's key does not matter here.
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
	})
	if err := conn.SetDeadline(time.Now().Add(within)); err != nil {
		t.Error(err)
	}
	if err := conn.HandshakeContext(t.Context()); err != nil {
		conn.Close() //nolint:errcheck // It was refused.
		return nil
	}
	return conn
}

func garbage(n int) []byte {
	data := make([]byte, n)
	rand.Read(data)
	data[0] |= 0x80 // no TLS record begins like this
	return data
}

// residentMemory is the agent's, in bytes.
func residentMemory(t *testing.T, c *harness.Cluster) int {
	t.Helper()
	rss, err := harness.ResidentMemory(c.AgentPID())
	if err != nil {
		t.Fatal(err)
	}
	return rss
}
