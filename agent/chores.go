// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/roster-mesh/roster/kube"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// chore is something that the agent does for itself, again when asked or when its time has come.
type chore string

const (
	choreAnnounce  chore = "announcement" // of everything that this cluster owns, once
	choreVersion   chore = "server version"
	choreBootstrap chore = "bootstrap credential"
	chorePins      chore = "pins"
	choreEpoch     chore = "epoch"
	choreFreeze    chore = "record of a restore"
	choreAddress   chore = "address of the mesh"
	choreRemovals  chore = "removals"
	choreDepart    chore = "end of the membership"
	choreCollect   chore = "collection of tombstones"
	choreScopes    chore = "record of where copies are"
	chorePositions chore = "record of how far peers are"
)

func (s *session) doChore(ctx context.Context, c chore) error {
	switch c {
	case choreAnnounce:
		if err := s.reopen(ctx); err != nil {
			return err
		}
		return s.publishAll(ctx)
	case choreVersion:
		version, err := s.client.ServerVersion(ctx)
		if err != nil {
			return fmt.Errorf("read the API server's version: %w", err)
		}
		s.metadata.setVersion(version)
		s.statuses.add(s.clusterID)
	case choreBootstrap:
		next, err := s.ensureBootstrap(ctx)
		if err != nil {
			return err
		}
		if next > 0 {
			s.chores.addAfter(c, max(next, time.Minute)) // however short the API server keeps the life of tokens
		}
	case chorePins:
		return unhurried(ctx, s.recordPins)
	case choreEpoch:
		return s.reopen(ctx)
	case choreFreeze:
		return s.recordFreeze(ctx)
	case choreAddress:
		s.judgeAddress(time.Now())
	case choreRemovals:
		return unhurried(ctx, s.carryOut)
	case choreDepart:
		return s.depart(ctx)
	case choreCollect:
		return s.collect(ctx)
	case choreScopes:
		return s.recordScopes(ctx) // before there are copies, as a rule: the next agent may have to find them
	case chorePositions:
		return unhurried(ctx, s.recordPositions)
	}
	return nil
}

// recordPause is left after a chore that writes whole Secrets, of up to a megabyte, because of what members say.
const recordPause = time.Second

// unhurried does a chore, and keeps it for a while: what comes meanwhile is done at once after that. A member can tell
// of thousands of keys, one by one, and each version of a Secret takes room in etcd until it is compacted.
func unhurried(ctx context.Context, do func(context.Context) error) error {
	err := do(ctx)
	select {
	case <-ctx.Done():
	case <-time.After(recordPause):
	}
	return err
}

// clockTold is called, a few times a minute at most, with how far the clock of the API server is ahead of that of this
// machine. One that was set has changed how long the credential lives that peers are given; so has the time for which
// this machine stood still.
func (s *session) clockTold(ahead time.Duration, moved bool) {
	if moved && s.chores != nil {
		s.chores.addAfter(choreBootstrap, time.Minute) // not more often, where several API servers have clocks of their own
	}
	if wrong := ahead.Abs() > clockOff; wrong == s.clockWrong.Swap(wrong) {
		return
	} else if !wrong {
		s.log.Info("the clocks of this machine and of the API server agree again")
		return
	}
	s.log.Warn("the clock of this machine is not that of the API server: set the one that is wrong, as with `sudo timedatectl set-ntp true`; until then the dates in this log mislead, and certificates may not be accepted", "serverAhead", ahead.Round(time.Second))
}

// nodesChanged is called with all nodes when one of them changed in what describes the cluster. An API
// server that was upgraded has had its connections closed, and with them the node watch, so the version
// is read again here and not by a timer.
func (s *session) nodesChanged(nodes []*kube.Node) {
	s.metadata.setNodes(nodes)
	s.learnAddress(func(a *address) { a.nodes = nodes })
	s.chores.add(choreVersion)
}

// watchNodes keeps the cluster's description of itself. Without the right to read nodes the cluster is listed
// without one.
func (s *session) watchNodes(ctx context.Context) error {
	for {
		err := kube.WatchNodes(ctx, s.client, s.nodesChanged)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // it ended because the agent ends
		}
		s.log.Warn("nodes cannot be read; provider, distribution and locality stay unknown", "error", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(untilWoken):
		}
	}
}

// metadataCell is what the cluster says of itself.
type metadataCell struct {
	mu      sync.Mutex
	nodes   []*kube.Node
	version string
}

func (m *metadataCell) setNodes(nodes []*kube.Node) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.nodes = nodes
}

func (m *metadataCell) setVersion(version string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.version = version
}

// describe fills a status; before the version is known it leaves what was there.
func (m *metadataCell) describe(status *v1alpha1.ClusterStatus) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.version == "" {
		return
	}
	describe(kube.DescribeCluster(m.nodes, m.version), status)
}
