// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/roster-mesh/roster/mesh/trust"
)

// MemberState is what the mesh believes of a member. It is an opinion about
// reachability, not a fact about the cluster: nothing may be deleted, revoked
// or transferred because of it.
//
//	Unknown ──▶ Alive ◀──▶ Suspect ──▶ Failed
//	              │  ▲                   │
//	              ▼  └───────────────────┤
//	             Left ◀──────────────────┘
type MemberState uint8

// The states of a member.
const (
	Unknown MemberState = iota // pinned, never met
	Alive                      // answers, directly or through others
	Suspect                    // missed a probe and may still refute it
	Failed                     // did not refute in time
	Left                       // said goodbye
)

// String is the state's name, as in conditions and metrics.
func (s MemberState) String() string {
	switch s {
	case Alive:
		return "Alive"
	case Suspect:
		return "Suspect"
	case Failed:
		return "Failed"
	case Left:
		return "Left"
	default:
		return "Unknown"
	}
}

// Member is one other pinned cluster.
type Member struct {
	ClusterID string
	State     MemberState
	Since     time.Time // when this agent first saw it in this state
}

// memberList is the list of members and their states.
type memberList struct {
	mu      sync.RWMutex
	members map[string]Member
}

// update takes over what memberlist knows, keyed by clusterID, for all pinned
// clusters (in order), forgets the others, and returns those whose state changed.
func (r *memberList) update(pins []trust.Pin, known map[string]memberlist.NodeStateType, now time.Time) []Member {
	r.mu.Lock()
	defer r.mu.Unlock()
	var changed []Member
	maps.DeleteFunc(r.members, func(id string, _ Member) bool {
		_, pinned := slices.BinarySearchFunc(pins, id, func(p trust.Pin, id string) int { return cmp.Compare(p.ClusterID, id) })
		return !pinned
	})
	for _, pin := range pins {
		m, met := r.members[pin.ClusterID]
		state, ok := known[pin.ClusterID]
		next := nextState(m.State, state, ok)
		if met && next == m.State {
			continue
		}
		m = Member{pin.ClusterID, next, now}
		r.members[pin.ClusterID] = m
		if met || next != Unknown {
			changed = append(changed, m)
		}
	}
	return changed
}

// nextState follows memberlist; when memberlist has forgotten a member, which
// it does a minute after its death, the last opinion stands.
func nextState(before MemberState, state memberlist.NodeStateType, known bool) MemberState {
	switch {
	case known && state == memberlist.StateAlive:
		return Alive
	case known && state == memberlist.StateSuspect:
		return Suspect
	case known && state == memberlist.StateLeft:
		return Left
	case known, before == Alive, before == Suspect:
		return Failed
	default:
		return before
	}
}

// list returns the member of every pin, in the pins' order.
func (r *memberList) list(pins []trust.Pin) []Member {
	r.mu.RLock()
	defer r.mu.RUnlock()
	members := make([]Member, len(pins))
	for i, pin := range pins {
		members[i] = r.members[pin.ClusterID]
		members[i].ClusterID = pin.ClusterID
	}
	return members
}

func (r *memberList) member(id string) Member {
	r.mu.RLock()
	defer r.mu.RUnlock()
	m := r.members[id]
	m.ClusterID = id
	return m
}

// present lists the clusterIDs of members that are alive or suspect.
func (r *memberList) present() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var ids []string
	for id, m := range r.members {
		if m.State == Alive || m.State == Suspect {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

func (r *memberList) isPresent(id string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	s := r.members[id].State
	return s == Alive || s == Suspect
}
