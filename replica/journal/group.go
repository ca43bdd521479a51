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

// ErrOtherGroup is returned when the record names another group than this journal is in: it must be opened again.
var ErrOtherGroup = errors.New("the agents of this cluster form another group")

// ErrRecord is returned when the record of the group cannot be read.
var ErrRecord = errors.New("which group of agents is this cluster's cannot be found out")

// Group is what an agent that is not alone knows of the others.
type Group struct {
	// Address is this agent's, as the others dial it. It outlives the disk.
	Address string
	// Peers are the addresses of all agents, this one's among them.
	Peers []string
	// Stream connects agents of this cluster, and nobody else. The journal closes it.
	Stream  Stream
	Records RecordStore
}

// RecordStore keeps, outside of the group, which group is the cluster's. All its agents see the same one.
type RecordStore interface {
	// Read returns the record, empty when there is none.
	Read(ctx context.Context) (Record, error)
	// Replace records now, unless something else than before is recorded. A record of another key it replaces only while
	// now's key is the cluster's, and returns ErrOtherGroup else: an agent that has not heard of the next key yet has no say.
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
	Unreachable     bool     // this agent leads, and one of the others has not answered lately
}

const (
	// maintainInterval is how often an agent looks whether it has a leader.
	maintainInterval = 500 * time.Millisecond
	// seekAfter is how long it waits for one before it asks why there is none; the longest of elections is shorter.
	seekAfter = 3 * time.Second
	// maxSeekWait bounds the wait between two attempts to join a group.
	maxSeekWait = 2 * time.Second
)

// compareRecord compares the directory with the record, and returns the group that this server begins, "" for none.
func (h *directory) compareRecord(ctx context.Context, g *Group) (begins string, err error) {
	if g == nil {
		return "", h.leaveGroup()
	}
	r, err := g.Records.Read(ctx)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrRecord, err)
	}
	kept, err := h.hasData()
	if err != nil {
		return "", err
	}
	key := h.owner.key()
	if (r.Group == "" || r.foreign(key)) && h.owner.Group == "" && kept { // it was alone until now, and the others come to it
		raced := g.Records.Replace(ctx, r, Record{Group: newServerID(), Founder: h.owner.ServerID, Key: key})
		if r, err = g.Records.Read(ctx); err != nil || r.Group == "" || r.foreign(key) {
			return "", fmt.Errorf("%w: %w", ErrRecord, errors.Join(raced, err))
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
func (h *directory) leaveGroup() error {
	if h.owner.Group == "" {
		return nil
	}
	if err := h.setAside(errors.New("it is of a group of agents, and this one is alone now")); err != nil {
		return err
	}
	h.owner.Group, h.owner.ServerID = "", newServerID()
	return h.record()
}

// bootstrap makes this server the only one of its group: what it holds, if anything, is what the group holds.
func (j *Journal) bootstrap(machine Machine, group, at string) error {
	has, err := j.stores.hasState()
	if err != nil {
		return err
	}
	config, self := j.config(), address(j.directory.owner.ServerID, at)
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
	j.directory.owner.Group = group
	return j.directory.record()
}

// startGroup runs raft as one of several voters.
func (j *Journal) startGroup(ctx context.Context, g *Group) error {
	j.stores.shared = true
	j.mux = newMux(g, j.directory.owner, j.admit)
	raftLog := newRaftLog(j.log)
	raftLog.error = slog.LevelDebug
	j.commits = newCommitObserver(raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: j.mux, MaxPool: 3, Timeout: askTimeout, Logger: raftLog,
	}))
	config := j.config()
	config.Logger = raftLog
	config.HeartbeatTimeout, config.ElectionTimeout, config.LeaderLeaseTimeout = heartbeat, heartbeat, lease
	config.TrailingLogs, config.ShutdownOnRemove = 256, false
	err := guarded(func() (err error) {
		j.raft, err = raft.NewRaft(config, j.fsm, j.stores, j.stores, j.stores.snapshots, j.commits)
		return err
	})
	j.stores.running.Store(true)
	close(j.started)
	if err == nil {
		j.raft.RegisterObserver(raft.NewObserver(nil, false, j.unreachable.observe))
	}
	if err != nil {
		_ = j.commits.Close()
		return errors.Join(fmt.Errorf("%w: %w", errBroken, err), j.stores.close())
	}
	j.mux.wg.Go(j.mux.serve)
	j.mux.wg.Go(func() { j.commits.relay(j.mux.closed) })
	ctx, j.stopMaintaining = context.WithCancel(context.WithoutCancel(ctx))
	j.maintaining.Go(func() { j.maintain(ctx, g) })
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
		ServerID: j.directory.owner.ServerID, Group: j.directory.owner.Group, Leader: dialled(at), Leads: leads,
		Term: j.raft.CurrentTerm(), Unreachable: leads && j.unreachable.any(),
	}
	votes := false
	for _, server := range voters(j.servers()) {
		s.Servers = append(s.Servers, dialled(server.Address))
		votes = votes || string(server.ID) == s.ServerID
	}
	s.Behind = !leads && (!votes || !j.caughtUp.Load())
	return s
}

// LogEnd says how far this server's log goes: what is farther in term, and then in index, holds more.
func (j *Journal) LogEnd() (term, index uint64) {
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

// maintain keeps this server in the group, until something ends the journal.
func (j *Journal) maintain(ctx context.Context, g *Group) {
	led, wait := time.Now(), maintainInterval
	var follower progress
	for {
		if err := j.fsm.broken(); err != nil {
			j.end(err)
			return
		}
		blank := len(j.servers()) == 0
		leader, _ := j.raft.LeaderWithID()
		leads := j.raft.State() == raft.Leader
		j.updateCaughtUp(&follower, leads, leader != "" && !blank)
		switch {
		case leads:
			led, wait = time.Now(), maintainInterval
			j.removeGone(g, goneAfter)
		case leader != "" && !blank:
			led, wait = time.Now(), maintainInterval
			j.requestVote(leader)
		case blank || time.Since(led) > seekAfter:
			err := j.requestJoin(ctx, g, blank)
			if errors.Is(err, ErrOtherGroup) {
				j.end(err)
				return
			}
			if wait = min(2*wait, maxSeekWait); err != nil {
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

// requestJoin asks to be taken in, and begins a group where nobody has one.
func (j *Journal) requestJoin(ctx context.Context, g *Group, blank bool) error {
	ctx, cancel := context.WithTimeout(ctx, 2*askTimeout) // it is asked again, and there is more to do
	defer cancel()
	r, err := g.Records.Read(ctx)
	if err != nil {
		return err
	}
	own := j.directory.owner
	if r.Group != "" && r.Group != own.Group {
		return ErrOtherGroup
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
	if err := g.Records.Replace(ctx, r, Record{Group: newServerID(), Founder: own.ServerID, Key: own.key()}); err != nil {
		return err
	}
	return ErrOtherGroup
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
	seen := map[string]bool{j.directory.owner.ServerID: true}
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
