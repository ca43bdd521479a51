// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package standalone

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/roster-mesh/roster/e2e/harness"
	"github.com/roster-mesh/roster/e2e/standalone/history"
)

var (
	rounds = flag.Int("rounds", 3, "how often TestLinearizable kills a server")
	seed   = flag.Uint64("seed", 1, "what TestLinearizable asks for")
)

const (
	// namesPerRound is how many objects each round adds. They are written to in this round and in the next.
	namesPerRound = 30
	// phase is how many requests are made before a server is killed, while it is, and while it starts.
	phase = 200
)

// TestLinearizable: servers that are killed again and again under writes lose nothing that they have acknowledged, and
// show nobody an older value after a newer one, whichever of them is asked.
func TestLinearizable(t *testing.T) {
	t.Parallel()
	t.Run("one", func(t *testing.T) {
		t.Parallel()
		c := &cluster{servers: []*server{start(t, filepath.Join(t.TempDir(), "d"))}}
		c.linearizable(t)
	})
	t.Run("three", func(t *testing.T) {
		t.Parallel()
		servers, peers := threeServers(t)
		c := &cluster{servers: servers[:], peers: peers[:]}
		c.linearizable(t)
	})
}

// cluster is what is killed, one server at a time.
type cluster struct {
	servers []*server
	peers   []string // their addresses for each other, if there are several
	load    *load
}

func (c *cluster) linearizable(t *testing.T) {
	t.Helper()
	h := history.New()
	c.load = newLoad(t.Context(), h, len(c.servers), *seed)
	for i := range c.servers {
		c.load.use(i, c.client(t, i))
	}
	random := rand.New(rand.NewPCG(*seed, uint64(len(c.servers))))
	var names []string
	for round := range *rounds {
		for i := range namesPerRound {
			names = append(names, fmt.Sprintf("round-%d-%d", round, i))
		}
		recent := names[max(0, len(names)-2*namesPerRound):]
		c.load.names.Store(&recent)
		victim := c.round(t, round, random)
		c.load.readAll(t, victim, c.client(t, victim), recent)
	}
	c.load.stop()
	for i := range c.servers {
		c.load.readAll(t, i, c.client(t, i), names)
	}
	for _, op := range []history.Op{history.Get, history.List, history.Create, history.Update} {
		if done := h.Count(op, history.Done); done < *rounds*10 {
			t.Errorf("only %d calls of %s were done", done, op)
		}
	}
	if err := h.Check(within); err != nil {
		t.Errorf("with -seed=%d: %v", *seed, err)
	}
}

func (c *cluster) client(t *testing.T, i int) rest.Interface {
	t.Helper()
	return c.servers[i].kubernetes(t).CoreV1().RESTClient()
}

// round kills one server under writes and starts it again under writes, and returns which.
func (c *cluster) round(t *testing.T, round int, random *rand.Rand) (victim int) {
	t.Helper()
	again := func() *server { return start(t, c.servers[victim].dir) }
	if len(c.servers) > 1 {
		leader := c.leader(t)
		switch round % 3 {
		case 0:
			victim = leader
		case 1:
			victim = (leader + 1 + random.IntN(len(c.servers)-1)) % len(c.servers)
		default:
			victim = random.IntN(len(c.servers))
			again = func() *server { return c.replace(t, victim) }
		}
		t.Logf("round %d: server %d is killed, and server %d leads", round, victim, leader)
	}
	c.load.begin(t.Context(), phase)
	c.load.during(t.Context(), phase, func() {
		if err := c.servers[victim].Signal(syscall.SIGKILL, within); err != nil {
			t.Fatal(err)
		}
		c.load.leave(victim)
	})
	c.load.during(t.Context(), phase, func() {
		c.servers[victim] = again()
		c.load.use(victim, c.client(t, victim))
	})
	c.load.begin(t.Context(), phase)
	return victim
}

// leader returns which server leads.
func (c *cluster) leader(t *testing.T) (leader int) {
	t.Helper()
	eventually(t, "one server leads", func(ctx context.Context) error {
		for i, s := range c.servers {
			leads, err := harness.Leads(ctx, s.dir)
			if err != nil {
				return err
			}
			if leads {
				leader = i
				return nil
			}
		}
		return errors.New("none does")
	})
	return leader
}

// replace starts a new server in place of one that was killed and has lost its disk.
func (c *cluster) replace(t *testing.T, victim int) *server {
	t.Helper()
	lost, peer := c.servers[victim], c.peers[victim]
	if err := os.RemoveAll(lost.dir); err != nil {
		t.Fatal(err)
	}
	other := c.servers[(victim+1)%len(c.servers)]
	file := filepath.Join(t.TempDir(), "bundle")
	eventually(t, "the removal of a server", func(context.Context) error { // the others may have no leader yet
		_, unremoved := run(t, "remove-member", "--data-dir", other.dir, peer)
		said, err := run(t, "add", "--data-dir", other.dir, "--peer", peer, file)
		if err != nil {
			return fmt.Errorf("%s (remove-member: %w)", said, errors.Join(err, unremoved))
		}
		return nil
	})
	return start(t, lost.dir, "--bundle", file)
}
