// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/roster-mesh/roster/mesh/trust"
)

// Members lists every other pinned cluster, ordered by clusterID; Unknown are
// those that were never met.
func (m *Mesh) Members() []Member {
	return m.members.list(m.options.Trust.Pins())
}

// Member is what Members says of one cluster.
func (m *Mesh) Member(clusterID string) Member { return m.members.member(clusterID) }

// missing lists the members that should be joined.
func (m *Mesh) missing() []string {
	var ids []string
	for _, pin := range m.options.Trust.Pins() {
		if !m.members.isPresent(pin.ClusterID) {
			ids = append(ids, pin.ClusterID)
		}
	}
	return ids
}

// announceInterval bounds how long two neighbours hold different things without
// noticing. It costs a neighbour's share of a hundred bytes each time.
const announceInterval = 5 * time.Second

// calm is how long no look at so many members follows one that took so long, on a busy machine perhaps: at thousands it takes tens of
// milliseconds.
func calm(took time.Duration, members int) time.Duration {
	return min(20*took, time.Duration(members)*time.Millisecond/5)
}

// watch follows the members' states until the context ends. Joins and deaths
// wake it; suspicion has no event, nor has its end, so it also looks by itself,
// when it is awake to announce: a copy of the member list in memory.
func (m *Mesh) watch(ctx context.Context) {
	pins, stop := m.options.Trust.Watch()
	defer stop()
	timer := time.NewTimer(0)
	defer timer.Stop()
	next := time.Now()
	announce := time.NewTicker(announceInterval)
	defer announce.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			return
		case <-announce.C:
			m.broadcaster.announceAll(m.members.present())
		case <-timer.C:
		case <-pins:
			m.disconnectUnpinned()
			m.pulls.forgetFruitless()
		case <-m.delegate.changed:
		}
		if wait := time.Until(next); wait > 0 { // members come in crowds
			timer.Reset(wait)
			continue
		}
		began := time.Now()
		members := m.refresh(ctx)
		next = time.Now().Add(max(time.Duration(m.alive.Load())*time.Millisecond, calm(time.Since(began), members)))
	}
}

// refresh looks at all members, and returns how many there are.
func (m *Mesh) refresh(ctx context.Context) int {
	known, err := inspect(m.transport.streams, m.transport.done)
	if err != nil {
		m.options.Log.Debug("inspect members", "error", err)
		return 0
	}
	before, pins := len(m.members.present()), m.options.Trust.Pins()
	changed := m.members.update(pins, known, time.Now())
	present := m.members.present()
	m.alive.Store(int64(len(present) + 1))
	if len(changed) > 0 || len(present) != before {
		m.broadcaster.setNeighbours(neighbours(m.options.Identity.ClusterID, m.secret, present))
	}
	m.count(pins)
	for _, id := range m.broadcaster.choices() {
		m.transport.packets.ensure(id)
	}
	m.joins.wakeUp()
	for _, member := range changed {
		level := slog.LevelInfo
		if member.State == Failed {
			level = slog.LevelWarn
		}
		m.options.Log.Log(ctx, level, "member changed", "cluster", member.ClusterID, "state", member.State.String())
		if member.State == Alive {
			m.forgetLogged(member.ClusterID)
		}
		m.options.MemberChanged(member)
	}
	return len(pins)
}

// count sets the gauges of members by state.
func (m *Mesh) count(pins []trust.Pin) {
	var counts [Left + 1]int
	for _, member := range m.members.list(pins) {
		counts[member.State]++
	}
	for state, n := range counts {
		m.metrics.members.WithLabelValues(MemberState(state).String()).Set(float64(n))
	}
}

// dialReport logs when a member cannot be dialled, once per kind of reason.
func (m *Mesh) dialReport(id string, err error) {
	switch {
	case err == nil:
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.logged[id] != "refused" {
			delete(m.logged, id)
		}
	case errors.Is(err, ErrWrongCluster):
		m.logUnreachable(id, "wrong cluster", err)
	case errors.Is(err, ErrNoEndpoint):
		m.logUnreachable(id, "no endpoint", err)
	default:
		m.logUnreachable(id, "unreachable", err)
	}
}

// logUnreachable logs why a member cannot be reached, unless that was the last thing
// logged about it. "refused" means that it was reached and said no: it does
// not know our key yet, or it is of another kind; nearer reasons win.
func (m *Mesh) logUnreachable(id, reason string, err error) {
	m.mu.Lock()
	before := m.logged[id]
	if before == reason || (reason == "refused" && before != "") {
		m.mu.Unlock()
		return
	}
	m.logged[id] = reason
	m.mu.Unlock()
	m.options.Log.Info("member cannot be reached", "cluster", id, "reason", reason, "error", oneLine(err))
}

// oneLine is an error's text for a log, where each endpoint that was tried has
// one in it.
func oneLine(err error) string {
	return strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' }), "; ")
}

// forgetLogged makes the next reason be logged, whatever it is.
func (m *Mesh) forgetLogged(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.logged, id)
}

// signal leaves a value in a channel of capacity one unless one is there.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
