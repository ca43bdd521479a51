// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"errors"

	"github.com/hashicorp/memberlist"

	"github.com/roster-mesh/roster/mesh/trust"
)

// errForeign: membership gossip about somebody whom no pin knows, or with an
// address that is not derived from the name, or of a protocol that would make
// memberlist refuse everybody else.
var errForeign = errors.New("not a pinned cluster at its constant address")

// memberProtocol is the version of memberlist's protocol that members speak.
const memberProtocol = memberlist.ProtocolVersion2Compatible

// delegate is what memberlist asks. It may be called with memberlist's locks
// held, so nothing in it waits or calls back.
type delegate struct {
	self    string
	trust   *trust.Table
	state   State
	pulls   *puller
	metrics *metrics
	changed chan struct{} // of capacity one: members came or went
}

var (
	_ memberlist.Delegate      = (*delegate)(nil)
	_ memberlist.AliveDelegate = (*delegate)(nil)
	_ memberlist.EventDelegate = (*delegate)(nil)
)

// NotifyAlive admits pinned clusters only. Membership messages are not signed,
// so any member may say this of any pinned cluster; it can lie about liveness
// and about nothing else.
func (d *delegate) NotifyAlive(m *memberlist.Node) error {
	if _, ok := d.trust.Key(m.Name); !ok {
		return errForeign
	}
	if !m.Addr.Equal(memberAddr(m.Name)) || m.Port != memberPort || len(m.Meta) > 0 {
		return errForeign
	}
	if m.PMin > memberProtocol || m.PMax < memberProtocol || m.PCur != memberProtocol || m.DMin|m.DMax|m.DCur != 0 {
		return errForeign
	}
	return nil
}

// NodeMeta is empty: what a cluster says of itself is a signed entry.
func (d *delegate) NodeMeta(int) []byte { return nil }

// NotifyMsg is never reached, because the transport delivers user messages
// itself, with their sender.
func (d *delegate) NotifyMsg([]byte) {}

// GetBroadcasts leaves memberlist's packets to memberlist: they go to members
// chosen at random, and a connection to each costs more than the news.
func (d *delegate) GetBroadcasts(int, int) [][]byte { return nil }

// LocalState is our half of a push/pull: what stands for all that is held.
func (d *delegate) LocalState(bool) []byte {
	digest := d.state.Digest()
	return encodeState(d.self, contents(digest))
}

// MergeRemoteState looks whether the sender holds something else, and if so has
// it pulled. The claimed sender may be a lie of another member: then
// a pull from the claimed one finds nothing.
func (d *delegate) MergeRemoteState(buf []byte, _ bool) {
	id, digest, err := decodeState(buf)
	if err != nil {
		d.metrics.dropped(err)
		return
	}
	if !d.trust.IsPeer(id) {
		return
	}
	d.pulls.requestFor(id, summarize(digest))
}

// NotifyJoin, NotifyLeave and NotifyUpdate have the members looked at again.
func (d *delegate) NotifyJoin(*memberlist.Node) { signal(d.changed) }

// NotifyLeave is called for members that left and for those that failed.
func (d *delegate) NotifyLeave(*memberlist.Node) { signal(d.changed) }

// NotifyUpdate is called when a member changed its metadata; ours have none.
func (d *delegate) NotifyUpdate(*memberlist.Node) { signal(d.changed) }
