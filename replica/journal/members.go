// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// MaxServers bounds the agents of one group. More than five are of no use: each write waits for most of them.
const MaxServers = 9

const (
	// outageMemory is longer than the wait between two attempts to reach an agent.
	outageMemory = 15 * time.Second
	// goneAfter is how long an agent that is not to be one any more must have been silent before it is removed.
	goneAfter = time.Minute
)

// outages are the servers that do not answer this one, which leads.
type outages struct {
	mu sync.Mutex
	of map[raft.ServerID]outage
}

// outage is from one attempt to reach a server to the last one.
type outage struct{ first, last time.Time }

// observe is told what raft observes.
func (s *outages) observe(o *raft.Observation) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch data := o.Data.(type) {
	case raft.FailedHeartbeatObservation:
		now := time.Now()
		was, ok := s.of[data.PeerID]
		if !ok || now.Sub(was.last) > outageMemory { // of another time that this one led
			was.first = now
		}
		was.last = now
		if s.of == nil {
			s.of = map[raft.ServerID]outage{}
		}
		s.of[data.PeerID] = was
	case raft.ResumedHeartbeatObservation:
		delete(s.of, data.PeerID)
	}
	return false
}

// any says that somebody has not answered lately.
func (s *outages) any() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, was := range s.of {
		if time.Since(was.last) < outageMemory {
			return true
		}
		delete(s.of, id)
	}
	return false
}

// longerThan says that a server has not answered for that time, and not since.
func (s *outages) longerThan(id raft.ServerID, than time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	was, ok := s.of[id]
	return ok && time.Since(was.last) < outageMemory && was.last.Sub(was.first) >= than
}

// removeGone has the leader remove an agent that is not to be one any more: its address is not among the peers', and it
// has been silent for that time. With it goes a vote that nobody gives, so those that are left need no more of
// them than before; and one that was meant to stay is taken in again when it asks. What is in the list is compared, and
// nothing looked up: a name that leads nowhere is still in it.
func (j *Journal) removeGone(g *Group, silent time.Duration) {
	if j.raft.State() != raft.Leader || !slices.Contains(g.Peers, g.Address) {
		return
	}
	j.joinMu.Lock()
	defer j.joinMu.Unlock()
	for _, s := range j.servers() {
		at := dialled(s.Address)
		if slices.Contains(g.Peers, at) || !j.unreachable.longerThan(s.ID, silent) {
			continue
		}
		if err := j.remove(s.ID); err != nil {
			j.log.Debug("an agent that is gone is not removed", "address", at, "error", err)
			continue
		}
		j.log.Warn("an agent that is not in --group-peers any more, and does not answer, is no agent of this cluster any more", "address", at)
	}
}

// admit answers a request. Only the leader can grant it.
func (j *Journal) admit(r request) answer {
	j.joinMu.Lock()
	defer j.joinMu.Unlock()
	servers := j.servers()
	out := answer{Blank: len(servers) == 0, ServerID: j.directory.owner.ServerID}
	if out.Blank || r.Group != j.directory.owner.Group || j.raft.State() != raft.Leader {
		return out
	}
	id, wanted := raft.ServerID(r.ServerID), address(r.ServerID, r.Address)
	if i := slices.IndexFunc(servers, func(s raft.Server) bool { return s.Address == wanted }); i >= 0 {
		if out.Taken = true; r.CaughtUp && servers[i].Suffrage != raft.Voter {
			out.Taken = j.await(func() error { return j.raft.AddVoter(id, wanted, 0, askTimeout).Error() }) == nil
		}
		return out
	}
	// Who is not where it says would take the place of somebody, and a vote that nobody gives.
	if there, err := j.mux.ask(r.Address, j.mux.request(false)); err != nil || there.ServerID != r.ServerID {
		j.log.Debug("an agent is not taken in: it is not at its address", "address", r.Address, "error", err)
		return out
	}
	for _, s := range servers {
		if s.ID == id || dialled(s.Address) == r.Address { // it has moved, or lost its disk
			j.log.Warn("an agent of this cluster comes without what it held, and is taken in anew", "address", r.Address)
			if err := j.remove(s.ID); err != nil {
				return out
			}
		}
	}
	if servers = j.servers(); len(servers) >= MaxServers {
		j.log.Warn("an agent is not taken in: the agents of this cluster are too many", "address", r.Address, "most", MaxServers)
		return out
	}
	out.Taken = j.add(id, wanted, len(voters(servers))) == nil
	return out
}

// add takes in a server that may hold nothing. To an even number it is one more that can answer, and no more answers are
// needed than before: it votes at once. To an odd number it is one more that must: it does when it has caught up. So a
// survivor that is alone goes on leading, whatever becomes of the first that comes to it.
func (j *Journal) add(id raft.ServerID, at raft.ServerAddress, voters int) error {
	return j.await(func() error {
		if voters%2 == 0 {
			return j.raft.AddVoter(id, at, 0, askTimeout).Error()
		}
		return j.raft.AddNonvoter(id, at, 0, askTimeout).Error()
	})
}

func (j *Journal) remove(id raft.ServerID) error {
	return j.await(func() error { return j.raft.RemoveServer(id, 0, askTimeout).Error() })
}

func voters(servers []raft.Server) (out []raft.Server) {
	for _, s := range servers {
		if s.Suffrage == raft.Voter {
			out = append(out, s)
		}
	}
	return out
}

// requestVote asks for this server's vote, which one that has caught up is given.
func (j *Journal) requestVote(leader raft.ServerAddress) {
	self := raft.ServerID(j.directory.owner.ServerID)
	if !j.caughtUp.Load() || !slices.ContainsFunc(j.servers(), func(s raft.Server) bool { return s.ID == self && s.Suffrage != raft.Voter }) {
		return
	}
	if _, err := j.mux.ask(dialled(leader), j.mux.request(true)); err != nil {
		j.log.Debug("the leader does not answer who has caught up", "error", err)
	}
}
