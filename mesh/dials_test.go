// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/roster-mesh/roster/mesh/trust"
)

// refusing is a network where nobody is at the addresses that some made up.
type refusing struct {
	Network

	mu     sync.Mutex
	dialed []time.Time
}

func (n *refusing) Dial(ctx context.Context, addr string) (net.Conn, error) {
	if strings.HasPrefix(addr, "victim-") {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.dialed = append(n.dialed, time.Now())
		return nil, errors.New("connection refused")
	}
	return n.Network.Dial(ctx, addr)
}

// TestInventionsHaveFewDialled: a member has invented as many clusters as can be pinned, each with eight addresses of others. Few of them
// are dialled in any minute, and a newcomer that another member admitted is dialled at once.
func TestInventionsHaveFewDialled(t *testing.T) {
	bubble(t, time.Millisecond, func(t *testing.T, g *group) {
		network := &refusing{}
		a := g.add("a", func(o *Options) {
			network.Network = o.Network
			o.Network = network
			o.Endpoints = func(id string) (addrs []string) {
				if !strings.HasPrefix(id, "invented-") {
					return g.endpoints(id)
				}
				for i := range maxEndpoints {
					addrs = append(addrs, fmt.Sprint("victim-", id, "-", i, ":1"))
				}
				return addrs
			}
		})
		a.trust.ShareBy(func(total int, wants map[string]int) map[string]int { // a half for all that are invented
			shares, invented := map[string]int{}, 0
			for id := range wants {
				if strings.HasPrefix(id, "invented-") {
					invented++
				}
			}
			for id := range wants {
				if shares[id] = total / 2; strings.HasPrefix(id, "invented-") {
					shares[id] /= invented
				}
			}
			return shares
		})
		h := g.add("h")
		g.swap(a, h)
		for i := range trust.MaxPins - 8 {
			key := make([]byte, 32)
			copy(key, fmt.Sprint("invented ", i))
			if err := a.trust.Restore(trust.Pin{ClusterID: fmt.Sprint("invented-", i), PublicKey: key, Introducer: "h"}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(30 * time.Second)
		n := g.add("n", func(o *Options) { o.Endpoints = func(string) []string { return nil } }) // so it does not dial a
		if err := errors.Join(n.trust.Pin("a", a.options.Identity.PublicKey()), a.trust.Restore(trust.Pin{ClusterID: "n", PublicKey: n.options.Identity.PublicKey(), Introducer: "h"})); err != nil {
			t.Fatal(err)
		}
		await(t, 2*time.Second, "the newcomer is dialled", func() bool { return a.Member("n").State == Alive })
		time.Sleep(time.Minute)

		network.mu.Lock()
		defer network.mu.Unlock()
		most := 0
		for i, at := range network.dialed {
			for most < i+1 && at.Sub(network.dialed[i-most]) < time.Minute {
				most++
			}
		}
		if most > 7*maxAddresses || most < maxAddresses {
			t.Errorf("up to %d addresses are dialled in a minute", most)
		}
		t.Logf("up to %d addresses are dialled in a minute", most)
	})
}
