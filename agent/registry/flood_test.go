// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/agent/agenttest"
	"github.com/roster-mesh/roster/agent/informers"
	"github.com/roster-mesh/roster/agent/payload"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/mesh/pace"
	"github.com/roster-mesh/roster/mesh/trust"
	"github.com/roster-mesh/roster/replica"
	"github.com/roster-mesh/roster/syncrules/engine/quota"
)

// flooded is an importer of cluster A, which trusts B and C. Its informers know what the test puts there, and see no write.
type flooded struct {
	*Importer
	api *agenttest.APIServer
	by  map[string]*replica.Replica
}

func newFlooded(t *testing.T, limits quota.Limits) *flooded {
	t.Helper()
	api, client := agenttest.NewAPIServer(t)
	log := slog.New(slog.DiscardHandler)
	pins := trust.New(trust.Pin{ClusterID: agenttest.IDA, PublicKey: agenttest.PublicKey(agenttest.IDA)}, trust.Options{})
	f := &flooded{api: api, by: map[string]*replica.Replica{}}
	for _, id := range []string{agenttest.IDB, agenttest.IDC} {
		if err := pins.Pin(id, agenttest.PublicKey(id)); err != nil {
			t.Fatal(err)
		}
		f.by[id] = agenttest.Signer(t, id, agenttest.Key(id))
	}
	held, err := replica.New(replica.Options{Self: agenttest.IDA, PrivateKey: agenttest.Key(agenttest.IDA), Epoch: 1, Keyring: pins})
	if err != nil {
		t.Fatal(err)
	}
	f.Importer = NewImporter(ImporterOptions{
		ClusterID: agenttest.IDA, Client: client, Registry: informers.New(client, "n", log), Replica: held,
		Key:  func(id string) (ed25519.PublicKey, bool) { return agenttest.PublicKey(id), true },
		Gone: func(string) bool { return false }, Accepts: func(string) bool { return true },
		CredentialRef: func(string) (v1alpha1.NamespacedName, bool) { return v1alpha1.NamespacedName{}, false },
		Share:         func(total int, wants map[string]int) map[string]int { return wants },
		Kick:          func(string) {}, Rules: &fakeRules{}, Refusals: NewRefusals(log), Quota: limits, Log: log,
	})
	return f
}

// changed publishes a Cluster object with that label, and imports it.
func (f *flooded) changed(t *testing.T, id, label string, size int) {
	t.Helper()
	c := agenttest.Cluster("cluster-"+id[:2], id)
	c.Labels = map[string]string{"n": label}
	c.Annotations = map[string]string{"big": strings.Repeat("x", size)}
	data, err := payload.EncodeCluster(c)
	if err != nil {
		t.Fatal(err)
	}
	f.publish(t, id, payload.ClusterKey(id), data)
}

// publish publishes an entry, and imports it.
func (f *flooded) publish(t *testing.T, id string, key replica.Key, data []byte) {
	t.Helper()
	messages, err := f.by[id].Publish(key, replica.Live, data)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range messages {
		if _, _, err := f.o.Replica.Merge(m, ""); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.importKey(t.Context(), key); err != nil {
		t.Fatal(err)
	}
}

// A member that changes a large Cluster entry all the time has it written as its quota allows, another does not wait, and
// in the end the newest one is written.
func TestFloodOfEntries(t *testing.T) {
	t.Parallel()
	const size, most, perSecond = 300 << 10, 3 << 20, 200 << 10
	began := time.Now()
	f := newFlooded(t, quota.NewLimits(most, perSecond, 1000, 100))
	for n := range 50 {
		f.changed(t, agenttest.IDB, fmt.Sprint(n), size)
	}
	writes, largest := f.api.Writes()
	const each = 2 * size // with managedFields
	allowed := most/each + 2 + int(time.Since(began).Seconds()*perSecond/each)
	if writes > allowed || writes < most/each || largest < size {
		t.Errorf("%d writes of up to %d bytes, want at most %d", writes, largest, allowed)
	}
	if f.budget.Waiting() != 1 {
		t.Errorf("%d wait", f.budget.Waiting())
	}
	f.changed(t, agenttest.IDC, "honest", size)
	if f.api.Object("cluster-"+agenttest.IDC[:2]) == nil {
		t.Error("another member waits")
	}

	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = f.Run(ctx) }()
	defer func() { cancel(); <-done }()
	deadline := time.Now().Add(time.Minute)
	for !strings.Contains(string(f.api.Object("cluster-"+agenttest.IDB[:2])), `"n":"49"`) {
		if time.Now().After(deadline) {
			t.Fatal("the newest entry is not written")
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// A small change of a rule that has a large status here writes all of that again, and is charged with it.
func TestStatusOfARuleIsCharged(t *testing.T) {
	t.Parallel()
	const size, most, changes = 64 << 10, 1 << 20, 10
	f := newFlooded(t, quota.NewLimits(most, 1, 1000, 1))
	rule := &v1alpha1.ResourceSyncRule{ObjectMeta: metav1.ObjectMeta{Name: "r"}}
	payload.MarkCopy(rule, payload.Meta{}, agenttest.IDB)
	rule.Status.Conditions = []metav1.Condition{{Type: "Ready", Message: strings.Repeat("x", size)}}
	if err := f.o.Registry.Put(rule); err != nil {
		t.Fatal(err)
	}
	f.api.SetObject("r", []byte(`{"apiVersion":"roster.invalid/v1","kind":"ResourceSyncRule","metadata":{"name":"r"}}`))
	for n := range changes {
		published := &v1alpha1.ResourceSyncRule{ObjectMeta: metav1.ObjectMeta{Name: "r", Labels: map[string]string{"n": fmt.Sprint(n)}}}
		published.Spec.GVK = v1alpha1.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
		data, err := payload.EncodeRule(published)
		if err != nil {
			t.Fatal(err)
		}
		f.publish(t, agenttest.IDB, payload.RuleKey("r"), data)
	}
	if f.budget.Waiting() != 1 {
		t.Errorf("%d changes of %d bytes are written at once, with a quota of %d", changes, size, most)
	}
}

// unfair gives IDC half of everything, and all others share the other half.
func unfair(total int, wants map[string]int) map[string]int {
	shares := map[string]int{}
	for id := range wants {
		if shares[id] = total / (2 * len(wants)); id == agenttest.IDC {
			shares[id] = total / 2
		}
	}
	return shares
}

// Of thousands of clusters that one member brings, some are listed at once, and the others wait for their turn; one that another member
// admitted does not wait for them. So it is with rules.
func TestManyChangesWait(t *testing.T) {
	t.Parallel()
	f := newFlooded(t, quota.Limits{})
	for places, total := range map[**pace.Budget]int{&f.newcomers: maxNewcomers, &f.changes: maxChanges} {
		*places = pace.NewBudget(total, total, time.Hour, unfair)
		for n := range total {
			(*places).Take(fmt.Sprint("invented-", n), false)
		}
	}
	written := func(name string) bool { return f.api.Object(name) != nil }
	publish := func(id string) {
		f.changed(t, id, "new", 1)
		rule := &v1alpha1.ResourceSyncRule{ObjectMeta: metav1.ObjectMeta{Name: "of-" + id[:2]}}
		rule.Spec.GVK = v1alpha1.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
		data, err := payload.EncodeRule(rule)
		if err != nil {
			t.Fatal(err)
		}
		f.publish(t, id, payload.RuleKey(rule.Name), data)
	}
	publish(agenttest.IDC)
	publish(agenttest.IDB)
	for _, name := range []string{"cluster-", "of-"} {
		if bad, good := written(name+agenttest.IDB[:2]), written(name+agenttest.IDC[:2]); bad || !good {
			t.Errorf("%s: one more of the member with thousands is written: %v; that of another: %v", name, bad, good)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = f.Run(ctx) }()
	both := func() bool { return written("cluster-"+agenttest.IDB[:2]) && written("of-"+agenttest.IDB[:2]) }
	for deadline := time.Now().Add(time.Minute); !both() && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	cancel()
	<-done
	if !both() {
		t.Error("its turn does not come")
	}
}

// Who has thousands of rules cannot have others write thousands of times by leaving, either.
func TestOrphansTakePlaces(t *testing.T) {
	t.Parallel()
	f := newFlooded(t, quota.Limits{})
	f.o.Gone = func(id string) bool { return id == agenttest.IDB }
	const more = 8
	for n := range maxChanges + more {
		rule := &v1alpha1.ResourceSyncRule{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("r-", n)}}
		payload.MarkCopy(rule, payload.Meta{}, agenttest.IDB)
		if err := f.o.Registry.Put(rule); err != nil {
			t.Fatal(err)
		}
		f.api.SetObject(rule.Name, []byte(`{"apiVersion":"roster.invalid/v1","kind":"ResourceSyncRule","metadata":{"name":"`+rule.Name+`"}}`))
	}
	f.changes = pace.NewBudget(maxChanges, maxChanges, time.Hour, unfair)
	for n := range maxChanges + more {
		if err := f.importKey(t.Context(), payload.RuleKey(fmt.Sprint("r-", n))); err != nil {
			t.Fatal(err)
		}
	}
	marked := f.api.Reads // a change is a patch, which is answered as a read
	if n := marked(); n != maxChanges {
		t.Errorf("%d are marked at once, of %d", n, maxChanges+more)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = f.Run(ctx) }()
	for deadline := time.Now().Add(time.Minute); marked() < maxChanges+more && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
	}
	cancel()
	<-done
	if n := marked(); n != maxChanges+more {
		t.Errorf("%d are marked in the end", n)
	}
}
