// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/agent/agenttest"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/mesh"
	"github.com/roster-mesh/roster/mesh/meshtest"
	"github.com/roster-mesh/roster/mesh/trust"
	"github.com/roster-mesh/roster/replica"
	"github.com/roster-mesh/roster/replica/removalguard"
)

// guarded is the membership of a cluster that swapped with each of ids, with all that guards it.
func guarded(t *testing.T, ids ...string) *fixture {
	t.Helper()
	b := newFixture(t)
	b.options.Members = func() (all []removalguard.Member) {
		for _, id := range b.Members() {
			all = append(all, removalguard.Member{ClusterID: id})
		}
		return all
	}
	b.reopen(t)
	for _, id := range ids {
		if err := b.trust.Pin(id, agenttest.PublicKey(id)); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// reopen begins with what is recorded, as open does, with a mesh and the guard.
func (b *fixture) reopen(t *testing.T) {
	t.Helper()
	record, err := ReadRecord(t.Context(), b.options.Store, b.options.Log)
	if err != nil {
		t.Fatal(err)
	}
	b.options.Record = record
	b.Membership = New(b.options)
	r, err := replica.New(replica.Options{
		Self: agenttest.IDA, PrivateKey: agenttest.Key(agenttest.IDA), Epoch: 1, Keyring: b.Keyring(), Hold: b.Hold, Removed: b.Removed, Removals: b.Removals(),
	})
	if err != nil {
		t.Fatal(err)
	}
	met, err := mesh.New(mesh.Options{
		Identity: mesh.Identity{ClusterID: agenttest.IDA, PrivateKey: agenttest.Key(agenttest.IDA)}, Trust: b.trust, State: r, Network: meshtest.NewNetwork(time.Millisecond).Host(agenttest.IDA), Listen: ":1",
		Origin: replica.Origin, Endpoints: func(string) []string { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = met.Close() })
	b.Bind(r, met)
}

// hears merges a removal by a member.
func (b *fixture) hears(t *testing.T, by, id string) { b.hearsFrom(t, "", by, id) }

func (b *fixture) hearsFrom(t *testing.T, voucher, by, id string) {
	t.Helper()
	signed := signedBy(t, by, id, agenttest.Key(by))
	if _, _, err := b.replica.Merge(signed.Message(), voucher); err != nil {
		t.Fatal(err)
	}
}

// record carries out and records what is due.
func (b *fixture) record(t *testing.T) {
	t.Helper()
	if err := errors.Join(b.carryOut(t.Context()), b.recordPins(t.Context())); err != nil {
		t.Fatal(err)
	}
}

func (b *fixture) wants(t *testing.T, when string, is map[string]bool) {
	t.Helper()
	for id, member := range is {
		if b.IsPinned(id) != member || b.Gone(id) == member {
			t.Errorf("%s: %s is a member: %t, gone: %t", when, id, b.IsPinned(id), b.Gone(id))
		}
	}
}

type events struct{ all []string }

func (e *events) Event(_ schema.GroupVersionKind, _ metav1.Object, _, reason, message string) {
	e.all = append(e.all, reason+": "+message)
}

// TestRemovalsAreHeld: of what m orders one takes effect, and the rest is held, by a restart, too: it ends nothing, and there is one event.
// What a person confirms ends, and counts no more; so does what this cluster orders itself.
func TestRemovalsAreHeld(t *testing.T) {
	m := guarded(t, "m", "b", "c", "d")
	said, own := &events{}, &v1alpha1.Cluster{}
	m.options.Events, m.options.Own = said, func() *v1alpha1.Cluster { return own }
	m.record(t)
	m.reopen(t)
	for _, id := range []string{"b", "c", "d", agenttest.IDA} {
		m.hears(t, "m", id)
	}
	after := map[string]bool{"b": false, "c": true, "d": true, "m": true}
	m.wants(t, "held", after)
	m.record(t)
	if got := strings.Join(m.ended(), ","); got != "revoked b,forgotten b,reissued" {
		t.Errorf("ended: %s", got)
	}
	if len(said.all) != 1 || !strings.HasPrefix(said.all[0], "RemovalsHeld: ") {
		t.Errorf("events: %q", said.all)
	}
	m.reopen(t)
	m.wants(t, "after a restart", after)
	for _, id := range []string{"d", "c", "b"} {
		m.hears(t, "m", id)
	}
	m.wants(t, "said again", after)
	if v := m.View(); v.Removed != "" || !v.Unconfirmed.Held || !strings.HasPrefix(v.Unconfirmed.Message, "removals by other members are held, and end nothing (removals: 3; who ordered them: 1)") {
		t.Errorf("it shows %+v", v)
	}

	own.Annotations = map[string]string{v1alpha1.AnnotationConfirmRemovals: v1alpha1.Approval("c", trust.Fingerprint(agenttest.PublicKey("c")))}
	m.checkConfirmations(own)
	for _, r := range m.guard.Again() {
		m.replica.Reconsider(r.ClusterID, r.PublicKey)
	}
	after["c"] = false
	m.wants(t, "confirmed", after)
	b := trust.Name{ClusterID: "b", Fingerprint: trust.Fingerprint(agenttest.PublicKey("b"))}
	if got := m.guard.Confirm([]trust.Name{b}); len(got) != 1 { // so nothing counts for m any more
		t.Errorf("%d are confirmed", len(got))
	}
	m.hears(t, "m", "d")
	m.wants(t, "what was held stays so", after)
	m.record(t)
	m.reopen(t)
	for _, r := range m.guard.Again() {
		m.replica.Reconsider(r.ClusterID, r.PublicKey)
	}
	m.wants(t, "after a restart, too", after)
	m.guard.Again()
	own.Annotations[v1alpha1.AnnotationConfirmRemovals] = "d"
	m.checkConfirmations(own)
	if len(m.guard.Again()) > 0 || !strings.HasPrefix(said.all[len(said.all)-1], "ConfirmationRefused: ") {
		t.Errorf("without a key it is confirmed, or it is not said why not: %q", said.all)
	}
	if err := m.remove(t.Context(), []string{"d"}); err != nil {
		t.Fatal(err)
	}
	after["d"] = false
	m.wants(t, "ordered here", after)
	if lines, _ := m.removalLines(); len(lines) != 1 {
		t.Errorf("it waits for %q", lines)
	}
	m.record(t)
	m.reopen(t)
	m.wants(t, "after another restart", after)
}

// TestAuthorityIsNotHeld: what an authority orders takes effect, also where another member's removal is held. Of a member that is gone
// everything is held.
func TestAuthorityIsNotHeld(t *testing.T) {
	m := guarded(t)
	m.options.Authorities = []string{"boss"}
	m.reopen(t)
	for _, id := range []string{"m", "b", "c", "d", "boss"} {
		if err := m.trust.Pin(id, agenttest.PublicKey(id)); err != nil {
			t.Fatal(err)
		}
	}
	m.hears(t, "m", "b")
	m.hears(t, "m", "c")
	m.hears(t, "boss", "c")
	m.wants(t, "by an authority", map[string]bool{"b": false, "c": false, "d": true})
	m.hears(t, "boss", "m")
	m.hearsFrom(t, "boss", "m", "d")
	m.wants(t, "by one that is removed", map[string]bool{"m": false, "d": true})
	if v := m.View(); v.Unconfirmed.Held || !strings.Contains(v.Unconfirmed.Message, "its author is no member") {
		t.Errorf("it shows %+v", v.Unconfirmed)
	}
}

// TestAuthorityConfirms: an authority, which names itself as one, passes on as its own what a person confirms there, so that those who name it
// take it; a member that is none confirms for itself alone. The metric counts what is held, and what is in effect.
func TestAuthorityConfirms(t *testing.T) {
	for name, c := range map[string]struct {
		authorities []string
		by          string
	}{"an authority": {[]string{agenttest.IDA}, agenttest.IDA}, "another member": {[]string{"boss"}, "m"}} {
		t.Run(name, func(t *testing.T) {
			m := guarded(t)
			m.options.Authorities = c.authorities
			m.reopen(t)
			for _, id := range []string{"m", "b", "c", "d"} {
				if err := m.trust.Pin(id, agenttest.PublicKey(id)); err != nil {
					t.Fatal(err)
				}
			}
			m.hears(t, "m", "b")
			m.hears(t, "m", "c")
			m.wants(t, "held", map[string]bool{"b": false, "c": true})
			m.counts(t, "held", map[string]float64{"held": 1, "in_effect": 1, "by_edge": 0, "disputed": 0})
			m.checkConfirmations(&v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
				v1alpha1.AnnotationConfirmRemovals: v1alpha1.Approval("c", trust.Fingerprint(agenttest.PublicKey("c"))),
			}}})
			if err := m.reconsider(t.Context()); err != nil {
				t.Fatal(err)
			}
			m.wants(t, "confirmed", map[string]bool{"b": false, "c": false, "d": true})
			m.counts(t, "confirmed", map[string]float64{"held": 0, "in_effect": 1, "by_edge": 0, "disputed": 0})
			if r, ok := m.ledger.Lookup("c", agenttest.PublicKey("c")); !ok || r.By != c.by || r.Ordered != (c.by == agenttest.IDA) {
				t.Errorf("others hear of it by %s, ordered here: %t, want by %s", r.By, r.Ordered, c.by)
			}
		})
	}
}

// counts compares the metric.
func (b *fixture) counts(t *testing.T, when string, want map[string]float64) {
	t.Helper()
	metrics := prometheus.NewRegistry()
	if err := metrics.Register(b.Collector()); err != nil {
		t.Fatal(err)
	}
	families, err := metrics.Gather()
	if err != nil || len(families) != 1 || families[0].GetName() != "roster_unconfirmed_removals" {
		t.Fatalf("%v: %v", families, err)
	}
	got := map[string]float64{}
	for _, one := range families[0].GetMetric() {
		got[one.GetLabel()[0].GetValue()] = one.GetGauge().GetValue()
	}
	if !maps.Equal(got, want) {
		t.Errorf("%s: roster_unconfirmed_removals has %v, want %v", when, got, want)
	}
}

// TestNewcomerHearsOfRemovals: a cluster that joins hears first that m removed all, and then of these. It takes them, but one.
func TestNewcomerHearsOfRemovals(t *testing.T) {
	m := guarded(t, "h")
	for _, id := range []string{"b", "c", "d"} {
		m.hearsFrom(t, "h", "m", id)
	}
	if v := m.View(); v.Unconfirmed.Message != "" {
		t.Errorf("of whom it does not know it shows %q", v.Unconfirmed.Message)
	}
	members := 0
	for _, id := range []string{"m", "b", "c", "d"} {
		if err := m.Keyring().Introduce(id, agenttest.PublicKey(id), "h"); err == nil {
			members++
		}
	}
	if members != 3 || !m.IsPinned("m") {
		t.Errorf("%d are members", members)
	}
	if v := m.View(); !v.Unconfirmed.Held {
		t.Errorf("it shows %+v", v.Unconfirmed)
	}
}

// TestNobodyProtectsItself: m has a cluster that it invented remove m, which is held there. Another member's removal of m takes effect.
func TestNobodyProtectsItself(t *testing.T) {
	m := guarded(t, "m", "y", "a", "b", "c")
	m.hears(t, "y", "c")
	m.hears(t, "y", "m")
	m.wants(t, "by what it invented", map[string]bool{"m": true, "c": false})
	m.hears(t, "a", "m")
	m.wants(t, "by another member", map[string]bool{"m": false})
	m.record(t)
	m.reopen(t)
	m.wants(t, "after a restart", map[string]bool{"m": false, "a": true})
}

// TestNobodyLeavesItsRemoval: a cluster whose removal is held leaves. It goes as who is removed: under the successor that it names
// nobody pins it.
func TestNobodyLeavesItsRemoval(t *testing.T) {
	m := guarded(t, "a", "b", "m", "x")
	m.hears(t, "a", "b")
	m.hears(t, "a", "m")
	m.wants(t, "held", map[string]bool{"b": false, "m": true})
	left, err := agenttest.Signer(t, "m", agenttest.Key("m")).SignLeave(agenttest.PublicKey("next"), "m", 1)
	if err != nil {
		t.Fatal(err)
	}
	if fresh, _, err := m.replica.Merge(left.Message(), "x"); !fresh || err != nil {
		t.Fatal(fresh, err)
	}
	for _, when := range []string{"it leaves", "after a restart"} {
		m.wants(t, when, map[string]bool{"m": false, "x": true})
		if r, ok := m.ledger.Lookup("m", agenttest.PublicKey("m")); !ok || r.Left() || r.By != "a" || len(r.Successor) > 0 {
			t.Errorf("%s: recorded is %+v", when, r)
		}
		_ = m.Keyring().Introduce("m", agenttest.PublicKey("next"), "x")
		if m.IsPinned("m") {
			t.Errorf("%s: it is pinned under its successor", when)
		}
		m.record(t)
		m.reopen(t)
	}
}

// TestMadeUpRemovalHidesNothing: somebody signs with a key of his own that a removed c. That is shown without the name of a, and the
// removal by b is held, and shown in its place.
func TestMadeUpRemovalHidesNothing(t *testing.T) {
	m := guarded(t, "a", "b", "c", "d", "x")
	forged := signedBy(t, "a", "c", agenttest.Key("thief"))
	if _, _, err := m.replica.Merge(forged.Message(), "x"); err != nil {
		t.Fatal(err)
	}
	if v := m.View(); v.Unconfirmed.Held || !strings.Contains(v.Unconfirmed.Message, "by a (clusterID a, key "+trust.Fingerprint(agenttest.PublicKey("thief"))+"): held, its author is no member") {
		t.Errorf("it shows %+v", v.Unconfirmed)
	}
	m.hears(t, "b", "d")
	m.hears(t, "b", "c")
	if v := m.View(); !v.Unconfirmed.Held || !strings.Contains(v.Unconfirmed.Message, "by b (clusterID b, key "+trust.Fingerprint(agenttest.PublicKey("b"))+"): held") {
		t.Errorf("it shows %+v", v.Unconfirmed)
	}
	m.wants(t, "held", map[string]bool{"c": true})
}

// TestWhoStrikesFirst: m removes a, which nobody confirms, and then what a says of m is held, with an event.
func TestWhoStrikesFirst(t *testing.T) {
	m := guarded(t, "a", "b", "c", "m")
	said, own := &events{}, &v1alpha1.Cluster{}
	m.options.Events, m.options.Own = said, func() *v1alpha1.Cluster { return own }
	m.reopen(t)
	for _, id := range []string{"a", "b", "c", "m"} {
		if err := m.trust.Pin(id, agenttest.PublicKey(id)); err != nil {
			t.Fatal(err)
		}
	}
	m.hears(t, "m", "a")
	m.hearsFrom(t, "b", "a", "m")
	m.wants(t, "m struck first", map[string]bool{"a": false, "m": true})
	if v := m.View(); !v.Unconfirmed.Held || len(said.all) != 1 || !strings.HasPrefix(said.all[0], "RemovalsHeld: ") {
		t.Errorf("it shows %+v, events %q", v.Unconfirmed, said.all)
	}
}

// TestRemovalByWhoIsPinnedLater: what was held because its author was not known is decided when it is pinned.
func TestRemovalByWhoIsPinnedLater(t *testing.T) {
	m := guarded(t, "h", "b", "c")
	m.hearsFrom(t, "h", "a", "b")
	m.wants(t, "its author is not known", map[string]bool{"b": true})
	m.record(t)
	m.reopen(t)
	for _, id := range []string{"h", "b", "c", "a"} {
		if err := m.trust.Pin(id, agenttest.PublicKey(id)); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range m.guard.Again() {
		m.replica.Reconsider(r.ClusterID, r.PublicKey)
	}
	m.wants(t, "its author is pinned", map[string]bool{"a": true, "b": false, "c": true})
}

// TestWhatWasOrderedHereIsTold: a statement by somebody else does not take the place of what this cluster tells the others.
func TestWhatWasOrderedHereIsTold(t *testing.T) {
	m := guarded(t, "b", "c", "x")
	if err := m.remove(t.Context(), []string{"b"}); err != nil {
		t.Fatal(err)
	}
	for i := range 8 { // one of them has the smaller hash
		m.hearsFrom(t, "x", "thief"+string(rune('a'+i)), "b")
	}
	m.record(t)
	m.reopen(t)
	if r, ok := m.ledger.Lookup("b", agenttest.PublicKey("b")); !ok || !r.Ordered || r.By != agenttest.IDA {
		t.Errorf("it tells %+v", r)
	}
}
