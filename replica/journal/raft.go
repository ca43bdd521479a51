// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// aloneHeartbeat is how often raft wakes a server that is alone, to see that nobody is missing. It does not wait for that to lead.
const aloneHeartbeat = 5 * time.Second

func (j *Journal) config() *raft.Config {
	config := raft.DefaultConfig()
	config.LocalID = raft.ServerID(j.directory.owner.ServerID)
	config.Logger = newRaftLog(j.log)
	// Snapshots are taken by size, see compact.
	config.SnapshotInterval, config.SnapshotThreshold = 24*time.Hour, math.MaxUint64
	return config
}

// startAlone runs raft with this server as the only voter, and returns when it leads.
func (j *Journal) startAlone(ctx context.Context) error {
	if err := j.electSelf(); err != nil {
		return errors.Join(err, j.stores.close())
	}
	if err := j.awaitAlone(ctx); err != nil {
		return errors.Join(err, j.stop())
	}
	return nil
}

func (j *Journal) electSelf() error {
	config, s := j.config(), j.stores
	config.TrailingLogs = 0 // nobody follows who could need them
	config.HeartbeatTimeout, config.ElectionTimeout, config.LeaderLeaseTimeout = aloneHeartbeat, aloneHeartbeat, aloneHeartbeat
	at := raft.ServerAddress(config.LocalID)
	_, transport := raft.NewInmemTransport(at)
	err := guarded(func() error {
		has, err := s.hasState()
		if err != nil {
			return err
		}
		if !has {
			servers := raft.Configuration{Servers: []raft.Server{{ID: config.LocalID, Address: at}}}
			if err := raft.BootstrapCluster(config, s, s, s.snapshots, transport, servers); err != nil {
				return err
			}
		}
		j.raft, err = raft.NewRaft(config, j.fsm, s, s, s.snapshots, transport)
		return err
	})
	s.running.Store(true)
	close(j.started)
	if err != nil {
		if s.err() != nil {
			return fmt.Errorf("write the log: %w", s.err())
		}
		return fmt.Errorf("%w: %w", errBroken, err)
	}
	// Nobody else can lead: there is nothing to wait for before the election.
	_, neighbour := raft.NewInmemTransport("")
	neighbour.Connect(at, transport)
	now := &raft.TimeoutNowRequest{RPCHeader: raft.RPCHeader{ProtocolVersion: config.ProtocolVersion}}
	if err := neighbour.TimeoutNow(config.LocalID, at, now, &raft.TimeoutNowResponse{}); err != nil {
		j.log.Debug("the election begins by its own timer", "error", err)
	}
	return nil
}

// raftLog passes on what raft warns of. The rest is of no use to who runs agents, and so is, in a group, each attempt to
// reach an agent that is down: who has no leader says so.
type raftLog struct {
	hclog.Logger // says nothing

	log   *slog.Logger
	error slog.Level
}

func newRaftLog(log *slog.Logger) raftLog {
	return raftLog{hclog.NewNullLogger(), log, slog.LevelWarn}
}

func (l raftLog) Warn(msg string, args ...any) { l.log.Debug("raft", append(args, "says", msg)...) }

func (l raftLog) Error(msg string, args ...any) {
	l.log.Log(context.Background(), l.error, "raft", append(args, "says", msg)...) //nolint:forbidigo // raft has no context
}

func (l raftLog) With(args ...any) hclog.Logger {
	return raftLog{l.Logger, l.log.With(args...), l.error}
}
func (l raftLog) Named(string) hclog.Logger      { return l }
func (l raftLog) ResetNamed(string) hclog.Logger { return l }
