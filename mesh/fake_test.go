// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/roster-mesh/roster/mesh/meshtest"
	"github.com/roster-mesh/roster/mesh/trust"
)

// entry is the fake state's message. Sequence 1 of an origin carries its key,
// as a Cluster entry does.
type entry struct {
	Origin    string
	Sequence  int
	PublicKey ed25519.PublicKey `json:",omitempty"`
	Payload   []byte            `json:",omitempty"`
	Signature []byte            `json:",omitempty"`
}

func (e entry) signed() []byte {
	e.Signature = nil
	b, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	return b
}

var errUnknownOrigin = errors.New("unknown origin")

// fakeState is the smallest State: a set of signed entries, numbered without
// gaps by their origin.
type fakeState struct {
	identity Identity
	trust    *trust.Table

	mu      sync.Mutex
	held    map[string]map[int][]byte
	upTo    map[string]int // frontiers
	rejects int
}

func newFakeState(identity Identity, trust *trust.Table) *fakeState {
	return &fakeState{identity: identity, trust: trust, held: map[string]map[int][]byte{}, upTo: map[string]int{}}
}

// publish makes the next own entry.
func (s *fakeState) publish(payload []byte) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := s.identity.ClusterID
	e := entry{Origin: own, Sequence: s.upTo[own] + 1, Payload: payload}
	if e.Sequence == 1 {
		e.PublicKey = s.identity.PublicKey()
	}
	e.Signature = ed25519.Sign(s.identity.PrivateKey, e.signed())
	b, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	s.put(e, b)
	return b
}

func (s *fakeState) put(e entry, msg []byte) {
	if s.held[e.Origin] == nil {
		s.held[e.Origin] = map[int][]byte{}
	}
	s.held[e.Origin][e.Sequence] = msg
	for s.held[e.Origin][s.upTo[e.Origin]+1] != nil {
		s.upTo[e.Origin]++
	}
}

func (s *fakeState) Digest() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, _ := json.Marshal(s.upTo) // cannot fail
	sum := sha256.Sum256(b)
	return append(append([]byte{0x0a, sha256.Size}, sum[:]...), b...)
}

func decodeFake(digest []byte) (held map[string]int, err error) {
	if len(digest) < contentsSize {
		return nil, errMalformed
	}
	return held, json.Unmarshal(digest[contentsSize:], &held)
}

func (s *fakeState) Lacks(digest []byte) (bool, error) {
	theirs, err := decodeFake(digest)
	if err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for origin, n := range theirs {
		if s.upTo[origin] < n {
			return true, nil
		}
	}
	return false, nil
}

func (s *fakeState) Delta(digest []byte, emit func([]byte) error) error {
	theirs, err := decodeFake(digest)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, origin := range slices.Sorted(maps.Keys(s.held)) {
		for n := theirs[origin] + 1; s.held[origin][n] != nil; n++ {
			if err := emit(s.held[origin][n]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *fakeState) Merge(msg []byte, introducer string) (fresh, pull bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var e entry
	if err := json.Unmarshal(msg, &e); err != nil {
		s.rejects++
		return false, false, err
	}
	if bytes.Equal(s.held[e.Origin][e.Sequence], msg) {
		return false, false, nil
	}
	key, ok := s.trust.Key(e.Origin)
	if !ok && (introducer == "" || e.Sequence != 1) {
		return false, true, errUnknownOrigin
	}
	if !ok {
		key = e.PublicKey
	}
	if len(key) != ed25519.PublicKeySize || !ed25519.Verify(key, e.signed(), e.Signature) {
		s.rejects++
		return false, false, errors.New("signature")
	}
	if !ok {
		if err := s.trust.Introduce(e.Origin, key, introducer); err != nil {
			return false, false, err
		}
	}
	if s.held[e.Origin][e.Sequence] != nil {
		return false, false, nil
	}
	s.put(e, msg)
	return true, s.upTo[e.Origin] < e.Sequence, nil
}

func (s *fakeState) rejected() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rejects
}

// member is one mesh of a test, with the state behind it.
type member struct {
	*Mesh
	name    string
	trust   *trust.Table
	state   *fakeState
	stop    context.CancelFunc
	stopped chan error

	mu      sync.Mutex
	changes []Member
}

// group is a number of members on one network, real or in memory.
type group struct {
	t       *testing.T
	network *meshtest.Network // nil: TCP on loopback
	mu      sync.Mutex
	members map[string]*member
	addrs   map[string]string
	keys    map[string]ed25519.PrivateKey
}

func newGroup(t *testing.T, network *meshtest.Network) *group {
	return &group{t: t, network: network, members: map[string]*member{}, addrs: map[string]string{}, keys: map[string]ed25519.PrivateKey{}}
}

// add starts a member. Members know each other's endpoints, as they would from
// Cluster objects; whom they trust is the test's to say.
func (g *group) add(name string, adjust ...func(*Options)) *member {
	g.t.Helper()
	key, ok := g.keys[name]
	if !ok {
		var err error
		if key, err = GenerateKey(); err != nil {
			g.t.Fatal(err)
		}
		g.keys[name] = key
	}
	identity := Identity{name, key}
	m := &member{name: name, stopped: make(chan error, 1)}
	m.trust = trust.New(trust.Pin{ClusterID: name, PublicKey: identity.PublicKey()}, trust.Options{})
	m.state = newFakeState(identity, m.trust)
	m.state.publish([]byte("cluster " + name))
	o := Options{
		Identity: identity, Trust: m.trust, State: m.state, Listen: "127.0.0.1:0",
		Endpoints: g.endpoints,
		Methods: map[string]Method{
			"Greet": {Serve: func(_ context.Context, from Caller, _ []byte) ([]byte, error) {
				return []byte("to " + from.ClusterID + " from " + name), nil
			}},
			"Tell": {Serve: func(_ context.Context, from Caller, msg []byte) ([]byte, error) {
				return nil, m.Merge(from.ClusterID, msg)
			}},
		},
		MemberChanged: func(c Member) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.changes = append(m.changes, c)
		},
	}
	if g.network != nil {
		o.Network, o.Listen = g.network.Host(name), ":7946"
	}
	for _, f := range adjust {
		f(&o)
	}
	var err error
	if m.Mesh, err = New(o); err != nil {
		g.t.Fatal(err)
	}
	g.mu.Lock()
	g.members[name], g.addrs[name] = m, m.Addr().String()
	g.mu.Unlock()
	ctx, cancel := context.WithCancel(g.t.Context())
	m.stop = cancel
	go func() { m.stopped <- m.Run(ctx) }()
	return m
}

func (g *group) endpoints(id string) []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if addr := g.addrs[id]; addr != "" {
		return []string{addr}
	}
	return nil
}

// swap makes two members trust each other.
func (g *group) swap(a, b *member) {
	g.t.Helper()
	if err := errors.Join(
		a.trust.Pin(b.name, b.state.identity.PublicKey()),
		b.trust.Pin(a.name, a.state.identity.PublicKey()),
	); err != nil {
		g.t.Fatal(err)
	}
}

// end stops members and waits for them.
func (g *group) end() {
	g.t.Helper()
	g.mu.Lock()
	members := slices.Collect(maps.Values(g.members))
	g.members = map[string]*member{}
	g.mu.Unlock()
	for _, m := range members {
		m.stop()
	}
	for _, m := range members {
		if err := <-m.stopped; err != nil {
			g.t.Errorf("%s: %v", m.name, err)
		}
	}
}

func (g *group) kill(m *member) {
	g.t.Helper()
	g.mu.Lock()
	delete(g.members, m.name)
	g.mu.Unlock()
	m.stop()
	if err := <-m.stopped; err != nil {
		g.t.Errorf("%s: %v", m.name, err)
	}
}

// await polls until the condition holds.
func await(t *testing.T, within time.Duration, what string, condition func() bool) time.Duration {
	t.Helper()
	start := time.Now()
	for !condition() {
		if time.Since(start) > within {
			t.Fatalf("not within %v: %s", within, what)
		}
		time.Sleep(2 * time.Millisecond)
	}
	return time.Since(start)
}

// sees says whether m has all others in the given state.
func (m *member) sees(state MemberState, others ...*member) bool {
	members := m.Members()
	for _, o := range others {
		if !slices.ContainsFunc(members, func(x Member) bool { return x.ClusterID == o.name && x.State == state }) {
			return false
		}
	}
	return true
}

// formed says whether every member sees every other one alive.
func formed(members ...*member) func() bool {
	return func() bool {
		for _, m := range members {
			others := slices.DeleteFunc(slices.Clone(members), func(o *member) bool { return o == m })
			if !m.sees(Alive, others...) {
				return false
			}
		}
		return true
	}
}

// equal says whether all hold the same.
func equal(members ...*member) func() bool {
	return func() bool {
		for _, m := range members[1:] {
			if !bytes.Equal(m.state.Digest(), members[0].state.Digest()) {
				return false
			}
		}
		return true
	}
}

func names(n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("c%03d", i)
	}
	return ids
}

func aliveNode(name string) memberlist.Node {
	return memberlist.Node{Name: name, Addr: memberAddr(name), Port: memberPort, PMin: 1, PMax: 5, PCur: memberProtocol}
}

// syncBuffer is a buffer that a logger writes to while the test reads it.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func textLogger(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }

func mustMetrics(t *testing.T) *metrics {
	t.Helper()
	m, err := newMetrics(nil)
	if err != nil {
		t.Fatal(err)
	}
	return m
}
