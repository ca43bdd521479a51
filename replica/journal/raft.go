// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// start runs raft with this server as the only voter.
func start(id string, f *fsm, s *stores, log *slog.Logger) (r *raft.Raft, err error) {
	config := raft.DefaultConfig()
	config.LocalID = raft.ServerID(id)
	config.Logger = newRaftLog(log)
	// Snapshots are taken by size, see compact. All before them may go: nobody follows who could need it.
	config.SnapshotInterval, config.SnapshotThreshold = 24*time.Hour, math.MaxUint64
	config.TrailingLogs = 0
	address := raft.ServerAddress(id)
	_, transport := raft.NewInmemTransport(address)
	err = guarded(func() error {
		has, err := raft.HasExistingState(s, s, s.snapshots)
		if err != nil {
			return err
		}
		if !has {
			servers := raft.Configuration{Servers: []raft.Server{{ID: config.LocalID, Address: address}}}
			if err := raft.BootstrapCluster(config, s, s, s.snapshots, transport, servers); err != nil {
				return err
			}
		}
		r, err = raft.NewRaft(config, f, s, s, s.snapshots, transport)
		return err
	})
	s.running.Store(true)
	if err != nil {
		if s.err() != nil {
			return nil, fmt.Errorf("write the log: %w", s.err())
		}
		return nil, fmt.Errorf("%w: %w", errBroken, err)
	}
	// Nobody else can lead: there is nothing to wait for before the election.
	_, neighbour := raft.NewInmemTransport("")
	neighbour.Connect(address, transport)
	now := &raft.TimeoutNowRequest{RPCHeader: raft.RPCHeader{ProtocolVersion: config.ProtocolVersion}}
	if err := neighbour.TimeoutNow(config.LocalID, address, now, &raft.TimeoutNowResponse{}); err != nil {
		log.Debug("the election begins by its own timer", "error", err)
	}
	return r, nil
}

// raftLog passes on what raft warns of. The rest is of no use to who runs one agent.
type raftLog struct {
	hclog.Logger // says nothing

	log *slog.Logger
}

func newRaftLog(log *slog.Logger) raftLog { return raftLog{hclog.NewNullLogger(), log} }

func (l raftLog) Warn(msg string, args ...any) { l.log.Debug("raft", append(args, "says", msg)...) }

func (l raftLog) Error(msg string, args ...any) { l.log.Warn("raft", append(args, "says", msg)...) }

func (l raftLog) With(args ...any) hclog.Logger  { return raftLog{l.Logger, l.log.With(args...)} }
func (l raftLog) Named(string) hclog.Logger      { return l }
func (l raftLog) ResetNamed(string) hclog.Logger { return l }
