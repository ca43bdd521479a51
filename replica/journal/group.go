// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// ErrTurned is returned when the record names another group than this journal is in: it must be opened again.
var ErrTurned = errors.New("the agents of this cluster form another group")

// ErrCharter is returned when the record of the group cannot be read.
var ErrCharter = errors.New("which group of agents is this cluster's cannot be found out")

// Group is what an agent that is not alone knows of the others.
type Group struct {
	// Address is this agent's, as the others dial it. It outlives the disk.
	Address string
	// Peers are the addresses of all agents, this one's among them.
	Peers []string
	// Stream connects agents of this cluster, and nobody else. The journal closes it.
	Stream  Stream
	Charter Charter
}

// Charter keeps, outside of the group, which group is the cluster's. All its agents see the same one.
type Charter interface {
	// Read returns the record, empty when there is none.
	Read(ctx context.Context) (Record, error)
	// Replace records now, unless something else than before is recorded. A record of another key it replaces only while
	// now's key is the cluster's, and returns ErrTurned else: an agent that has not heard of the next key yet has no say.
	Replace(ctx context.Context, before, now Record) error
}

// Record names a group and the server that it begins with: with nothing, or with what it holds of an earlier one. So
// it is decided in one step, outside of raft, who begins, and what is not of this group is of no group.
type Record struct {
	Group, Founder string
	// Key is the public key of the cluster then, in base64; "" in a record that does not say, which is of the present one.
	Key string
}

// foreign says that the record is of another key: the directories of that group are of no use to anybody who has this
// one, so there is nothing that an agent which does not answer could have.
func (r Record) foreign(key string) bool { return r.Key != "" && r.Key != key }

// Status is what an agent knows of its group.
type Status struct {
	ServerID, Group string
	Leader          string   // address of the agent that leads; "" when there is none, as far as is known
	Leads           bool     // it is this one
	Behind          bool     // this agent follows, and has no vote yet or lacks what the group has had for a while
	Servers         []string // addresses of the agents that vote in it; none while this one is not taken in
	Term            uint64   // in which it votes
	Silent          bool     // this agent leads, and one of the others has not answered lately
}

const (
	// attendEvery is how often an agent looks whether it has a leader.
	attendEvery = 500 * time.Millisecond
	// patience is how long it waits for one before it asks why there is none; the longest of elections is shorter.
	patience = 3 * time.Second
	// seekMost bounds the wait between two attempts to join a group.
	seekMost = 2 * time.Second
)

// settle compares the directory with the record, and returns the group that this server begins, "" for none.
func (h *home) settle(ctx context.Context, g *Group) (begins string, err error) {
	if g == nil {
		return "", h.leaveGroup()
	}
	r, err := g.Charter.Read(ctx)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrCharter, err)
	}
	kept, err := h.keeps()
	if err != nil {
		return "", err
	}
	key := h.owner.key()
	if (r.Group == "" || r.foreign(key)) && h.owner.Group == "" && kept { // it was alone until now, and the others come to it
		raced := g.Charter.Replace(ctx, r, Record{Group: newServerID(), Founder: h.owner.ServerID, Key: key})
		if r, err = g.Charter.Read(ctx); err != nil || r.Group == "" || r.foreign(key) {
			return "", fmt.Errorf("%w: %w", ErrCharter, errors.Join(raced, err))
		}
	}
	switch {
	case h.owner.Group != "" && !h.exists(): // the others know the lost disk by its ID
		h.owner.ServerID = newServerID()
		if r.Group != "" {
			h.owner.Group = r.Group
		}
	case r.Group == "" || r.Group == h.owner.Group:
		return "", nil
	case r.Founder == h.owner.ServerID:
		return r.Group, nil
	case kept:
		if err := h.setAside(errors.New("it is of a group of agents that ended")); err != nil {
			return "", err
		}
		h.owner.ServerID, h.owner.Group = newServerID(), r.Group
	default:
		h.owner.Group = r.Group
	}
	return "", h.record()
}

// leaveGroup is for an agent that is alone again: what it holds of a group may not be the last.
func (h *home) leaveGroup() error {
	if h.owner.Group == "" {
		return nil
	}
	if err := h.setAside(errors.New("it is of a group of agents, and this one is alone now")); err != nil {
		return err
	}
	h.owner.Group, h.owner.ServerID = "", newServerID()
	return h.record()
}

// begin makes this server the only one of its group: what it holds, if anything, is what the group holds.
func (j *Journal) begin(machine Machine, group, at string) error {
	has, err := j.stores.hasState()
	if err != nil {
		return err
	}
	config, self := j.config(), address(j.home.owner.ServerID, at)
	_, transport := raft.NewInmemTransport(self)
	alone := raft.Configuration{Servers: []raft.Server{{ID: config.LocalID, Address: self}}}
	f := &fsm{machine: machine}
	err = guarded(func() error {
		if has {
			return raft.RecoverCluster(config, f, j.stores, j.stores, j.stores.snapshots, transport, alone)
		}
		return raft.BootstrapCluster(config, j.stores, j.stores, j.stores.snapshots, transport, alone)
	})
	if err = cmp.Or(f.broken(), err); err != nil {
		return fmt.Errorf("begin a group of agents: %w", err)
	}
	j.home.owner.Group = group
	return j.home.record()
}

// startGroup runs raft as one of several voters.
func (j *Journal) startGroup(ctx context.Context, g *Group) error {
	j.stores.shared = true
	j.mux = newMux(g, j.home.owner, j.takeIn)
	said := newRaftLog(j.log)
	said.error = slog.LevelDebug
	j.heard = newOverheard(raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: j.mux, MaxPool: 3, Timeout: askWithin, Logger: said,
	}))
	config := j.config()
	config.Logger = said
	config.HeartbeatTimeout, config.ElectionTimeout, config.LeaderLeaseTimeout = heartbeat, heartbeat, lease
	config.TrailingLogs, config.ShutdownOnRemove = 256, false
	err := guarded(func() (err error) {
		j.raft, err = raft.NewRaft(config, j.fsm, j.stores, j.stores, j.stores.snapshots, j.heard)
		return err
	})
	j.stores.running.Store(true)
	close(j.started)
	if err == nil {
		j.raft.RegisterObserver(raft.NewObserver(nil, false, j.silences.hear))
	}
	if err != nil {
		_ = j.heard.Close()
		return errors.Join(fmt.Errorf("%w: %w", errBroken, err), j.stores.close())
	}
	j.mux.wg.Go(j.mux.serve)
	j.mux.wg.Go(func() { j.heard.relay(j.mux.closed) })
	ctx, j.stopAttending = context.WithCancel(context.WithoutCancel(ctx))
	j.attending.Go(func() { j.attend(ctx, g) })
	return nil
}

const (
	// heartbeat is how long, at least, a leader may say nothing before another one is elected, and three times that at
	// most: raft looks after one to two of them, and again if it has just heard. The three seconds that a failover may
	// take have room for this and the start of a session. Heartbeats wait for no disk.
	heartbeat = 500 * time.Millisecond
	// lease is how long a leader goes on that does not hear of the others.
	lease = 400 * time.Millisecond
)

// Status may be asked at any time.
func (j *Journal) Status() Status {
	at, _ := j.raft.LeaderWithID()
	leads := j.raft.State() == raft.Leader
	s := Status{
		ServerID: j.home.owner.ServerID, Group: j.home.owner.Group, Leader: dialled(at), Leads: leads,
		Term: j.raft.CurrentTerm(), Silent: leads && j.silences.anybody(),
	}
	votes := false
	for _, server := range voters(j.servers()) {
		s.Servers = append(s.Servers, dialled(server.Address))
		votes = votes || string(server.ID) == s.ServerID
	}
	s.Behind = !leads && (!votes || !j.caughtUp.Load())
	return s
}

// Reach says how far this server's log goes: what is farther in term, and then in index, holds more.
func (j *Journal) Reach() (term, index uint64) {
	stats := j.raft.Stats()
	for _, key := range []string{"last_log_term", "last_snapshot_term"} {
		if n, err := strconv.ParseUint(stats[key], 10, 64); err == nil {
			term = max(term, n)
		}
	}
	return term, j.raft.LastIndex()
}

// servers is the group as this server knows it; nil when it is in none.
func (j *Journal) servers() []raft.Server {
	f := j.raft.GetConfiguration()
	if f.Error() != nil {
		return nil
	}
	return f.Configuration().Servers
}

// attend keeps this server in the group, until something ends the journal.
func (j *Journal) attend(ctx context.Context, g *Group) {
	led, wait := time.Now(), attendEvery
	var comesAlong progress
	for {
		if err := j.fsm.broken(); err != nil {
			j.end(err)
			return
		}
		blank := len(j.servers()) == 0
		leader, _ := j.raft.LeaderWithID()
		leads := j.raft.State() == raft.Leader
		j.follow(&comesAlong, leads, leader != "" && !blank)
		switch {
		case leads:
			led, wait = time.Now(), attendEvery
			j.dismiss(g, goneAfter)
		case leader != "" && !blank:
			led, wait = time.Now(), attendEvery
			j.grow(leader)
		case blank || time.Since(led) > patience:
			err := j.seek(ctx, g, blank)
			if errors.Is(err, ErrTurned) {
				j.end(err)
				return
			}
			if wait = min(2*wait, seekMost); err != nil {
				j.log.Debug("no group of agents is joined", "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// seek asks to be taken in, and begins a group where nobody has one.
func (j *Journal) seek(ctx context.Context, g *Group, blank bool) error {
	ctx, cancel := context.WithTimeout(ctx, 2*askWithin) // it is asked again, and there is more to attend to
	defer cancel()
	r, err := g.Charter.Read(ctx)
	if err != nil {
		return err
	}
	own := j.home.owner
	if r.Group != "" && r.Group != own.Group {
		return ErrTurned
	}
	answers, others := j.askAll(g)
	for _, a := range answers {
		if a.Taken {
			return nil
		}
	}
	known := r
	if r.foreign(own.key()) {
		known = Record{}
	}
	if !blank || !known.mayBegin(own.ServerID, answers, others) {
		return fmt.Errorf("%d of %d other agents answer, and none takes this one in", len(answers), others)
	}
	if err := g.Charter.Replace(ctx, r, Record{Group: newServerID(), Founder: own.ServerID, Key: own.key()}); err != nil {
		return err
	}
	return ErrTurned
}

// mayBegin says whether a server that holds nothing may begin a group, from what the others answered. A group that was
// begun before is begun again only when all agents say that they have nothing left: who does not answer may
// have all of it.
func (r Record) mayBegin(self string, answers []answer, others int) bool {
	for _, a := range answers {
		if !a.Blank || a.ServerID == r.Founder {
			return false
		}
	}
	if r.Group == "" || r.Founder == self {
		return 2*(len(answers)+1) > others+1
	}
	return len(answers) == others
}

// askAll returns the answers of other agents, and how many there are: one that answers under two names, as of a DNS name
// that has not heard yet where its agent is now, speaks for one of them.
func (j *Journal) askAll(g *Group) (answers []answer, others int) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	seen := map[string]bool{j.home.owner.ServerID: true}
	for _, peer := range g.Peers {
		if peer == g.Address {
			continue
		}
		others++
		wg.Go(func() {
			a, err := j.mux.ask(peer, j.mux.request(false))
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				j.log.Debug("another agent of this cluster does not answer", "address", peer, "error", err)
			case seen[a.ServerID]:
			default:
				seen[a.ServerID] = true
				answers = append(answers, a)
			}
		})
	}
	wg.Wait()
	return answers, others
}
