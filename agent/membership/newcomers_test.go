// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/roster-mesh/roster/agent/agenttest"
	"github.com/roster-mesh/roster/agent/pinned"
	"github.com/roster-mesh/roster/agent/removals"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/mesh/trust"
	"github.com/roster-mesh/roster/replica"
)

// introduction is the Cluster entry of a cluster under some key, which anybody may forward.
func introduction(t *testing.T, id, key string) []byte {
	t.Helper()
	msgs, err := agenttest.Signer(t, id, agenttest.Key(key)).Publish(replica.Key{Kind: replica.KindCluster, Name: id}, replica.Live, []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	return msgs[0]
}

// removalBy is a member's removal of a key of a cluster.
func removalBy(t *testing.T, by, id, key string) []byte {
	t.Helper()
	r, err := agenttest.Signer(t, by, agenttest.Key(by)).SignRemoval(id, agenttest.PublicKey(key), "b", "c", 1)
	if err != nil {
		t.Fatal(err)
	}
	return r.Message()
}

// leaveOf is a cluster's statement that it leaves, and goes on under another key.
func leaveOf(t *testing.T, id, key, successor string) []byte {
	t.Helper()
	r, err := agenttest.Signer(t, id, agenttest.Key(key)).SignLeave(agenttest.PublicKey(successor), "b", 1)
	if err != nil {
		t.Fatal(err)
	}
	return r.Message()
}

func (b *fixture) merge(t *testing.T, introducer string, messages ...[]byte) {
	t.Helper()
	for _, msg := range messages {
		if _, _, err := b.replica.Merge(msg, introducer); err != nil {
			t.Fatal(err)
		}
	}
}

// restart records what there is, and begins again from that.
func (b *fixture) restart(t *testing.T) {
	t.Helper()
	if err := errors.Join(b.recordRemovals(t.Context()), b.recordPins(t.Context())); err != nil {
		t.Fatal(err)
	}
	b.open(t)
}

// TestRemoverDoesNotBecomeTheRemoved: c removes b, and introduces b's clusterID under a key of its own. It has nothing of
// b's then, also after a restart in between, until a person approves the key.
func TestRemoverDoesNotBecomeTheRemoved(t *testing.T) {
	for name, between := range map[string]func(*fixture, *testing.T){
		"at once": func(*fixture, *testing.T) {}, "after a restart": (*fixture).restart,
	} {
		t.Run(name, func(t *testing.T) {
			m := newFixture(t)
			if err := m.trust.Pin(agenttest.IDC, agenttest.PublicKey(agenttest.IDC)); err != nil {
				t.Fatal(err)
			}
			m.merge(t, agenttest.IDC, introduction(t, agenttest.IDB, agenttest.IDB))
			m.merge(t, "", removalBy(t, agenttest.IDC, agenttest.IDB, agenttest.IDB))
			between(m, t)
			posing := introduction(t, agenttest.IDB, "stolen")
			if _, _, err := m.replica.Merge(posing, agenttest.IDC); !errors.Is(err, trust.ErrReserved) {
				t.Fatalf("c is b now: %v", err)
			}
			if m.IsPinned(agenttest.IDB) || !m.Gone(agenttest.IDB) || len(m.replica.Entries(replica.KindCluster)) != 0 {
				t.Fatal("something of it is taken")
			}
			mark := trust.Fingerprint(agenttest.PublicKey("stolen"))
			if v := m.View(); v.NotAdmittedReason != v1alpha1.AdmittedPending || !strings.Contains(v.NotAdmitted, "agentctl approve b --key "+mark) {
				t.Errorf("it is shown as %q", v.NotAdmitted)
			}
			if got := v1alpha1.ParseNewcomers(m.View().NotAdmitted); len(got) != 1 || got[0].ClusterID != agenttest.IDB || got[0].Fingerprint != mark || got[0].Name != "b" {
				t.Errorf("agentctl reads %+v", got)
			}
			m.approve(mark)
			m.merge(t, agenttest.IDC, posing)
			if !m.IsPinned(agenttest.IDB) || m.Gone(agenttest.IDB) || m.View().NotAdmitted != "" {
				t.Error("it is not admitted by an approval")
			}
			between(m, t)
			if !m.IsPinned(agenttest.IDB) {
				t.Error("the approval is forgotten")
			}
		})
	}
}

// approve sets the annotation for one newcomer with b's clusterID.
func (b *fixture) approve(fingerprint string) {
	b.checkApprovals(&v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
		v1alpha1.AnnotationApprove: "elsewhere/" + fingerprint + "," + v1alpha1.Approval(agenttest.IDB, fingerprint),
	}}})
}

// TestSuccessorIsAdmitted: the key that b's own leave names is admitted, at a member that was introduced to b and at one
// that a person had swap with it, also after a removal that an approval has settled, and after a restart.
func TestSuccessorIsAdmitted(t *testing.T) {
	m := newFixture(t)
	if err := m.trust.Pin(agenttest.IDC, agenttest.PublicKey(agenttest.IDC)); err != nil {
		t.Fatal(err)
	}
	m.merge(t, agenttest.IDC, introduction(t, agenttest.IDB, agenttest.IDB))
	m.merge(t, "", removalBy(t, agenttest.IDC, agenttest.IDB, agenttest.IDB))
	m.approve(trust.Fingerprint(agenttest.PublicKey("first")))
	m.merge(t, agenttest.IDC, introduction(t, agenttest.IDB, "first"), leaveOf(t, agenttest.IDB, "first", "second"))
	m.restart(t)
	m.merge(t, agenttest.IDC, introduction(t, agenttest.IDB, "second"), leaveOf(t, agenttest.IDB, "second", "third"))
	m.restart(t)
	if _, _, err := m.replica.Merge(introduction(t, agenttest.IDB, "other"), agenttest.IDC); !errors.Is(err, trust.ErrReserved) {
		t.Fatal(err)
	}
	m.merge(t, agenttest.IDC, introduction(t, agenttest.IDB, "third"))
	m.restart(t)
	if !m.IsPinned(agenttest.IDB) {
		t.Fatal("the successor is forgotten")
	}
	m.merge(t, agenttest.IDC, removalBy(t, agenttest.IDC, agenttest.IDB, "second")) // which has left: that is no answer to it
	if m.IsPinned(agenttest.IDB) || !m.Gone(agenttest.IDB) || len(m.replica.Entries(replica.KindCluster)) != 0 {
		t.Error("a key of the line is removed by another member, and its successor stays")
	}
}

// TestALeaveOfAnIntroducedCluster: it names the next key, also after a restart; nobody else does, and nobody leaves in its name.
func TestALeaveOfAnIntroducedCluster(t *testing.T) {
	m := newFixture(t)
	if err := m.trust.Pin(agenttest.IDC, agenttest.PublicKey(agenttest.IDC)); err != nil {
		t.Fatal(err)
	}
	m.merge(t, agenttest.IDC, introduction(t, agenttest.IDB, agenttest.IDB), leaveOf(t, agenttest.IDB, "made up", "stolen"))
	if _, _, err := m.replica.Merge(introduction(t, agenttest.IDB, "stolen"), agenttest.IDC); err == nil || !m.IsPinned(agenttest.IDB) || m.Gone(agenttest.IDB) {
		t.Fatalf("a key that was made up has left, and b is gone: %v", err)
	}
	m.merge(t, agenttest.IDC, leaveOf(t, agenttest.IDB, agenttest.IDB, "next"))
	m.restart(t)
	if _, _, err := m.replica.Merge(introduction(t, agenttest.IDB, "stolen"), agenttest.IDC); !errors.Is(err, trust.ErrReserved) {
		t.Fatal(err)
	}
	m.merge(t, agenttest.IDC, introduction(t, agenttest.IDB, "next"))
	if key, _ := m.trust.Key(agenttest.IDB); !key.Equal(agenttest.PublicKey("next")) {
		t.Error("the successor is not pinned")
	}
}

// TestARemovalAfterTheLeaveIsRecordedAtOnce: or a restart within an hour forgot it, and the leave's line went on.
func TestARemovalAfterTheLeaveIsRecordedAtOnce(t *testing.T) {
	m := newFixture(t)
	if err := errors.Join(m.trust.Pin(agenttest.IDC, agenttest.PublicKey(agenttest.IDC)), m.trust.Pin(agenttest.IDB, agenttest.PublicKey(agenttest.IDB))); err != nil {
		t.Fatal(err)
	}
	m.merge(t, agenttest.IDC, leaveOf(t, agenttest.IDB, agenttest.IDB, "next"), leaveOf(t, agenttest.IDB, "made up", "stolen"))
	m.restart(t)
	m.merge(t, agenttest.IDC, removalBy(t, agenttest.IDC, agenttest.IDB, "made up"))
	if wait, _ := m.work.carryOut.Due(); wait < recordUnknown/2 {
		t.Errorf("that of a key that was never known is recorded in %v", wait)
	}
	m.merge(t, agenttest.IDC, removalBy(t, agenttest.IDC, agenttest.IDB, agenttest.IDB))
	if wait, asked := m.work.carryOut.Due(); !asked || wait > 0 {
		t.Errorf("it is recorded in %v", wait)
	}
}

// TestPinsOfEarlierVersionsStand: such a version recorded no basis, and had taken the newcomer.
func TestPinsOfEarlierVersionsStand(t *testing.T) {
	m := newFixture(t)
	if err := m.trust.Pin(agenttest.IDC, agenttest.PublicKey(agenttest.IDC)); err != nil {
		t.Fatal(err)
	}
	m.merge(t, agenttest.IDC, removalBy(t, agenttest.IDC, agenttest.IDB, agenttest.IDB))
	m.restart(t)
	if err := m.o.Store.Replace(t.Context(), pinned.Secret, map[string][]byte{
		agenttest.IDB: []byte(`{"publicKey":"` + v1alpha1.RequestKey(agenttest.PublicKey("again")) + `","introducer":"` + agenttest.IDC + `"}`),
	}); err != nil {
		t.Fatal(err)
	}
	for range 2 { // this version records it
		m.open(t)
		if key, _ := m.trust.Key(agenttest.IDB); !key.Equal(agenttest.PublicKey("again")) || m.trust.Swapped(agenttest.IDB) {
			t.Fatal("the pin is lost, or counts as a swap")
		}
		if err := m.recordPins(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLeavesOfEarlierVersionsReserve: such a version recorded a leave without the basis of the pin that it ended.
func TestLeavesOfEarlierVersionsReserve(t *testing.T) {
	m := newFixture(t)
	if err := m.trust.Pin(agenttest.IDC, agenttest.PublicKey(agenttest.IDC)); err != nil {
		t.Fatal(err)
	}
	m.merge(t, agenttest.IDC, introduction(t, agenttest.IDB, agenttest.IDB), leaveOf(t, agenttest.IDB, agenttest.IDB, "next"), leaveOf(t, "other", "made up", "stolen"))
	m.restart(t)
	secret, err := m.o.Store.Read(t.Context(), removals.Secret)
	if err != nil {
		t.Fatal(err)
	}
	stripped := 0
	for key, data := range secret.Data {
		secret.Data[key] = bytes.Replace(data, []byte(`,"basis":"`+pinned.Introduced+`"`), nil, 1)
		stripped += len(data) - len(secret.Data[key])
	}
	if err := m.o.Store.Replace(t.Context(), removals.Secret, secret.Data); err != nil || stripped == 0 {
		t.Fatal(stripped, err)
	}
	m.open(t)
	if _, _, err := m.replica.Merge(introduction(t, agenttest.IDB, "stolen"), agenttest.IDC); !errors.Is(err, trust.ErrReserved) {
		t.Errorf("a cluster that had left is not reserved: %v", err)
	}
	m.merge(t, agenttest.IDC, introduction(t, agenttest.IDB, "next"), introduction(t, "other", "first"))
	if !m.IsPinned(agenttest.IDB) || !m.IsPinned("other") {
		t.Error("its successor is not pinned, or a leave that was made up counts")
	}
}

// TestCopiesAreNoSwap: the object of a cluster that was removed, as an agent here or in another member had written it,
// admits nobody; that of the cluster itself does.
func TestCopiesAreNoSwap(t *testing.T) {
	m := newFixture(t)
	m.merge(t, agenttest.IDC, removalBy(t, agenttest.IDC, agenttest.IDB, agenttest.IDB))
	c := agenttest.Cluster("b", agenttest.IDB)
	c.Spec.Mesh.PublicKey = agenttest.PublicKey("again")
	c.Annotations = map[string]string{v1alpha1.AnnotationOwnerClusterID: agenttest.IDB}
	m.Swapped(c)
	if m.IsPinned(agenttest.IDB) || m.Pending(agenttest.IDB) == "" {
		t.Error("a copy is a swap")
	}
	c.Annotations = nil
	func() {
		defer func() { _ = recover() }() // there is no mesh, which would be told to connect
		m.Swapped(c)
	}()
	if !m.IsPinned(agenttest.IDB) {
		t.Error("a swap is refused")
	}
}

// TestCopyWithoutARecordedPin: where a pin was not recorded, the object that an agent had written is a swap only if it says that
// somebody here admitted the cluster. Others are pinned again when a member brings them.
func TestCopyWithoutARecordedPin(t *testing.T) {
	for by, swap := range map[string]bool{"": false, agenttest.IDC: false, agenttest.IDA + "/" + agenttest.IDC: false, agenttest.IDA: true} {
		m := newFixture(t)
		c := agenttest.Cluster("b", agenttest.IDB)
		c.Annotations = map[string]string{v1alpha1.AnnotationOwnerClusterID: agenttest.IDB}
		c.Status.AdmittedBy = []string{by}
		func() {
			defer func() { _ = recover() }() // there is no mesh, which would be told to connect
			m.Swapped(c)
		}()
		if m.IsPinned(agenttest.IDB) != swap {
			t.Errorf("admitted by %q: a swap is %t", by, !swap)
		}
	}
}

// TestSwapsAreRecorded: a swap is recorded without the pause that introductions have, and says when it is; a start after that knows it.
func TestSwapsAreRecorded(t *testing.T) {
	m := newFixture(t)
	var recorded []string
	m.Hooks.Recorded = func(id string) { recorded = append(recorded, id) }
	if !m.Recorded(agenttest.IDC) {
		t.Error("a pin that was recorded is not")
	}
	other := agenttest.Cluster("other", "other")
	func() {
		defer func() { _ = recover() }() // there is no mesh, which would be told to connect
		m.Swapped(other)
	}()
	if _, due := m.work.swaps.Due(); !due || m.Recorded("other") {
		t.Error("a swap counts as recorded before it is, or waits")
	}
	m.pins.forgetting.Store(true)
	if err := m.recordPins(t.Context()); err != nil || m.Recorded("other") {
		t.Error("while the group is forgotten, a swap counts as recorded", err)
	}
	m.pins.forgetting.Store(false)
	if err := m.recordPins(t.Context()); err != nil || !m.Recorded("other") || !slices.Equal(recorded, []string{"other"}) {
		t.Errorf("recorded: %v: %v", recorded, err)
	}
	m.open(t)
	if !m.IsPinned("other") || !m.trust.Swapped("other") {
		t.Error("after a restart, the swap is forgotten")
	}
}

func TestFingerprintsAreTheSame(t *testing.T) {
	key := agenttest.PublicKey(agenttest.IDA)
	if a, b := trust.Fingerprint(key), v1alpha1.KeyFingerprint(key); a != b {
		t.Errorf("%s and %s", a, b)
	}
}

// TestPinsConvergeInAnyOrder: whatever members and b itself state of b's keys, and in which order it comes, also several
// leaves of one key that name different successors: once the newcomer is introduced again, all members that their
// persons had told the same have the same pins, and hold the same entries.
func TestPinsConvergeInAnyOrder(t *testing.T) {
	keys := []string{agenttest.IDB, "first", "second", "third"}
	said := map[string][]byte{}
	for _, key := range keys {
		said["newcomer "+key] = introduction(t, agenttest.IDB, key)
		said["removal "+key] = removalBy(t, agenttest.IDC, agenttest.IDB, key)
		for _, next := range keys {
			said["leave "+key+" "+next] = leaveOf(t, agenttest.IDB, key, next)
		}
	}
	kinds := slices.Sorted(maps.Keys(said))
	statements := slices.DeleteFunc(slices.Clone(kinds), func(kind string) bool { return strings.HasPrefix(kind, "newcomer") })
	rapid.Check(t, func(rt *rapid.T) {
		newcomer := "newcomer " + rapid.SampledFrom(keys).Draw(rt, "newcomer")
		steps := append(rapid.SliceOfN(rapid.SampledFrom(statements), 0, 5).Draw(rt, "statements"), newcomer)
		var first ed25519.PublicKey
		var held int
		for i := range 3 {
			table := trust.New(trust.Pin{ClusterID: agenttest.IDA, PublicKey: agenttest.PublicKey(agenttest.IDA)}, trust.Options{})
			if err := table.Pin(agenttest.IDC, agenttest.PublicKey(agenttest.IDC)); err != nil {
				rt.Fatal(err)
			}
			r, err := replica.New(replica.Options{Self: agenttest.IDA, PrivateKey: agenttest.Key(agenttest.IDA), Epoch: 1, Keyring: table})
			if err != nil {
				rt.Fatal(err)
			}
			for _, kind := range append(rapid.Permutation(steps).Draw(rt, "order"), newcomer) {
				_, _, _ = r.Merge(said[kind], agenttest.IDC)
			}
			key, _ := table.Key(agenttest.IDB)
			entries := len(r.Entries(replica.KindCluster))
			if i == 0 {
				first, held = key, entries
			}
			if !first.Equal(key) || held != entries || (key == nil) != (entries == 0) {
				rt.Fatalf("pinned %x and %x, with %d and %d entries", first, key, held, entries)
			}
		}
	})
}
