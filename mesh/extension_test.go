// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package mesh_test

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/roster-mesh/roster/mesh"
	"github.com/roster-mesh/roster/mesh/meshtest"
	"github.com/roster-mesh/roster/mesh/trust"
)

// A part that is not in this package adds a method and a protocol to the mesh port: they are two options. Here members
// ask each other for their name, and write to each other; who is no member yet may knock.
func Example() {
	network := meshtest.NewNetwork(0)
	one, two := newGuestBook("one", network), newGuestBook("two", network)
	stop := run(one, two)
	defer stop()

	ctx := context.Background()
	_ = one.trust.Pin("two", two.key()) // but two does not know one yet
	fmt.Println(one.write(ctx, "two", "guestbook/1", "hello"))
	fmt.Println(one.write(ctx, "two", "guestbook-knock/1", "may I come in?"))
	_ = two.trust.Pin("one", one.key())
	fmt.Println(one.write(ctx, "two", "guestbook/1", "hello"))

	name, err := one.mesh.Call(ctx, "two", "Name", nil)
	fmt.Println(string(name), err)
	for _, entry := range two.entries {
		fmt.Println(entry)
	}
	// Output:
	// refused
	// read
	// read
	// my name is two, one <nil>
	// a stranger wrote: may I come in?
	// one wrote: hello
}

// guestBook is such a part.
type guestBook struct {
	identity mesh.Identity
	trust    *trust.Table
	mesh     *mesh.Mesh

	mu      sync.Mutex
	entries []string
}

func newGuestBook(id string, network *meshtest.Network) *guestBook {
	key, err := mesh.GenerateKey()
	if err != nil {
		panic(err)
	}
	b := &guestBook{identity: mesh.Identity{ClusterID: id, PrivateKey: key}}
	b.trust = trust.New(trust.Pin{ClusterID: id, PublicKey: b.key()}, trust.Options{})
	b.mesh, err = mesh.New(mesh.Options{
		Identity: b.identity, Trust: b.trust, State: nothing{}, Network: network.Host(id), Listen: ":7946",
		Endpoints: func(id string) []string { return []string{id + ":7946"} },
		Methods:   map[string]mesh.Method{"Name": {Serve: b.name, Timeout: time.Second}},
		Protocols: map[string]mesh.Handler{
			"guestbook/1":       {Serve: b.read},
			"guestbook-knock/1": {Serve: b.read, Unpinned: true},
		},
	})
	if err != nil {
		panic(err)
	}
	return b
}

func (b *guestBook) key() ed25519.PublicKey { return b.identity.PublicKey() }

// name is the method.
func (b *guestBook) name(_ context.Context, from mesh.Caller, _ []byte) ([]byte, error) {
	return []byte("my name is " + b.identity.ClusterID + ", " + from.ClusterID), nil
}

// read is the protocol: a line of at most 100 bytes, and the word that it was read.
func (b *guestBook) read(_ context.Context, from mesh.Caller, conn net.Conn) {
	who := from.ClusterID
	if who == "" {
		who = "a stranger"
	}
	line := make([]byte, 100)
	n, err := conn.Read(line)
	if err != nil {
		return
	}
	b.mu.Lock()
	b.entries = append(b.entries, who+" wrote: "+string(line[:n]))
	b.mu.Unlock()
	_, _ = io.WriteString(conn, "read")
}

// write writes into the book of another cluster.
func (b *guestBook) write(ctx context.Context, id, protocol, line string) string {
	conn, err := b.mesh.Dial(ctx, id, protocol)
	if err != nil {
		return "refused"
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, line); err != nil {
		return "refused"
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		return "refused"
	}
	return string(answer)
}

// run runs the meshes until stop is called.
func run(books ...*guestBook) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for _, b := range books {
		wg.Go(func() {
			if err := b.mesh.Run(ctx); err != nil {
				panic(err)
			}
		})
	}
	return func() { cancel(); wg.Wait() }
}

// nothing is a State that is empty for ever: all hold the same, so there is nothing to spread.
type nothing struct{}

func (nothing) Digest() []byte                            { return append([]byte{0x0a, 32}, make([]byte, 32)...) }
func (nothing) Lacks([]byte) (bool, error)                { return false, nil }
func (nothing) Delta([]byte, func([]byte) error) error    { return nil }
func (nothing) Merge([]byte, string) (_, _ bool, _ error) { return false, false, nil }

// The names that the mesh speaks itself are taken.
func TestAPartCannotTakeANameOfTheMesh(t *testing.T) {
	b := newGuestBook("one", meshtest.NewNetwork(0))
	defer b.mesh.Close()
	for _, o := range []mesh.Options{
		{Protocols: map[string]mesh.Handler{"h2": {Serve: b.read}}},
		{Methods: map[string]mesh.Method{"Pull": {Serve: b.name}}},
	} {
		o.Identity, o.Trust, o.State, o.Network, o.Listen = b.identity, b.trust, nothing{}, meshtest.NewNetwork(0).Host("one"), ":7946"
		if _, err := mesh.New(o); err == nil {
			t.Error("it is taken")
		} else {
			t.Log(err)
		}
	}
}
