// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/agent/agenttest"
	"github.com/roster-mesh/roster/agent/budget"
	"github.com/roster-mesh/roster/agent/informers"
	"github.com/roster-mesh/roster/agent/loop"
	"github.com/roster-mesh/roster/agent/payload"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
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
		Key:      func(id string) (ed25519.PublicKey, bool) { return agenttest.PublicKey(id), true },
		Recorded: func(string) bool { return true },
		Gone:     func(string) bool { return false }, Accepts: func(string) bool { return true },
		CredentialRef: func(string) (v1alpha1.NamespacedName, bool) { return v1alpha1.NamespacedName{}, false },
		Kick:          func(string) {}, Parent: func(string) string { return agenttest.IDA }, Slowed: func() {}, Rules: &fakeRules{}, Refusals: NewRefusals(log), Quota: limits, Log: log,
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
	f.imports(t, key)
}

func (f *flooded) imports(t *testing.T, key replica.Key) {
	t.Helper()
	if err := f.importKey(t.Context(), key); err != nil && !errors.Is(err, loop.ErrWaits) {
		t.Fatal(err)
	}
}

// TestASwapIsRecordedFirst: the object that a person pasted stays as it is until the pin is recorded. Once it is a copy, only the record says
// that a person here swapped with the cluster, and a crash between the two would lose that.
func TestASwapIsRecordedFirst(t *testing.T) {
	t.Parallel()
	f := newFlooded(t, quota.NewLimits(1<<20, 1<<20, 100, 100))
	recorded := false
	f.o.Recorded = func(id string) bool { return recorded || id != agenttest.IDB }
	f.changed(t, agenttest.IDB, "new", 1)
	f.changed(t, agenttest.IDC, "new", 1)
	if f.api.Object("cluster-"+agenttest.IDB[:2]) != nil || f.api.Object("cluster-"+agenttest.IDC[:2]) == nil {
		t.Error("a copy is written before its pin is recorded, or one whose pin is")
	}
	recorded = true
	f.imports(t, payload.ClusterKey(agenttest.IDB))
	if f.api.Object("cluster-"+agenttest.IDB[:2]) == nil {
		t.Error("no copy is written")
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
	key, looked := f.o.Key, 0
	f.o.Key = func(id string) (ed25519.PublicKey, bool) { looked++; return key(id) }
	for n := 0; n < 100 && f.budget.Waiting() > 0; n++ { // or its turn has come
		f.imports(t, payload.ClusterKey(agenttest.IDB))
	}
	if looked > 1 {
		t.Errorf("while it waits it is read %d times", looked)
	}
	f.o.Recorded = func(id string) bool { return id != agenttest.IDB }
	if f.imports(t, payload.ClusterKey(agenttest.IDB)); f.budget.Waiting() != 0 {
		t.Error("an entry that is not to be imported any more waits")
	}
	f.o.Recorded = func(string) bool { return true }
	f.imports(t, payload.ClusterKey(agenttest.IDB))
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
	payload.MarkCopy(rule, payload.Meta{}, agenttest.IDC)
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
		f.publish(t, agenttest.IDC, payload.RuleKey("r"), data)
	}
	if f.budget.Waiting() != 1 {
		t.Errorf("%d changes of %d bytes are written at once, with a quota of %d", changes, size, most)
	}

	// While it waits the entries of all clusters are not looked for. Once its owner is gone it waits no more for that one's turn: it
	// becomes the copy of the first that has the same rule.
	planned := &plannedRules{}
	f.o.Rules = planned
	if f.imports(t, payload.RuleKey("r")); planned.times > 0 {
		t.Error("what is to be done is decided while the copy waits")
	}
	f.o.Gone = func(id string) bool { return id == agenttest.IDC }
	same := &v1alpha1.ResourceSyncRule{ObjectMeta: metav1.ObjectMeta{Name: "r"}}
	same.Spec.GVK = v1alpha1.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	data, err := payload.EncodeRule(same)
	if err != nil {
		t.Fatal(err)
	}
	rule.Spec = same.Spec
	if err := f.o.Registry.Put(rule); err != nil {
		t.Fatal(err)
	}
	before := f.api.Reads() // patches count as these
	f.publish(t, agenttest.IDB, payload.RuleKey("r"), data)
	if now := f.api.Reads(); f.budget.Waiting() > 0 || now != before+1 {
		t.Errorf("the rule of a cluster that is gone waits, and does not become another one's: %d writes, %d wait", now-before, f.budget.Waiting())
	}
}

// plannedRules count how often it was decided what to do under a name.
type plannedRules struct {
	fakeRules
	times int
}

func (r *plannedRules) NameClash(string, string) { r.times++ }

// Of what one member brings, some is written at once, and the rest waits for its turn: new clusters, changes of clusters and of rules,
// deletions, orphans, and what the API server refuses. Another member waits for nothing, and in the end all is written.
func TestManyChangesWait(t *testing.T) {
	t.Parallel()
	const atOnce, more, perSecond = 24, 16, 8
	began := time.Now()
	limits := quota.NewLimits(1<<20, 1<<20, atOnce/2, perSecond/2) // of each of two accounts
	limits.Common = budget.NewCommon(limits, agenttest.IDA, func(string) string { return agenttest.IDA })
	limits.Writes = quota.DefaultLimits().Writes
	f := newFlooded(t, limits)
	name := func(n int) string { return fmt.Sprintf("r-%02d", n) }
	for n := range atOnce + more {
		f.rule(t, agenttest.IDB, name(n))
	}
	written := 0
	for n := range atOnce + more {
		if f.api.Object(name(n)) != nil {
			written++
		}
	}
	if most := atOnce + 1 + int(time.Since(began).Seconds()*perSecond); written < atOnce || written > most {
		t.Errorf("%d of %d rules are written at once, want %d", written, atOnce+more, most)
	}
	waiting := atOnce + more - written
	if said, want := f.says(), fmt.Sprintf("%d of them of cluster %s and", waiting, agenttest.IDB); !strings.Contains(said, want) {
		t.Errorf("while changes wait it says %q, want %q", said, want)
	}
	f.changed(t, agenttest.IDB, "new", 1)
	f.changed(t, agenttest.IDC, "new", 1)
	f.rule(t, agenttest.IDC, "honest")
	for _, what := range []string{"cluster-" + agenttest.IDC[:2], "honest"} {
		if f.api.Object(what) == nil {
			t.Errorf("%s of another member waits", what)
		}
	}
	f.drains(t, func() bool {
		return f.api.Object(name(atOnce+more-1)) != nil && f.api.Object("cluster-"+agenttest.IDB[:2]) != nil && f.budget.Waiting() == 0
	})
	if said := f.says(); said != "" {
		t.Errorf("when all is written it says %q", said)
	}
}

// A rule that names other namespaces again and again costs each cluster as many watches: it is charged for them, and for those alone
// that are new.
func TestWideRulesWait(t *testing.T) {
	t.Parallel()
	const many = 100
	wide := func(name string, from int) *v1alpha1.ResourceSyncRule {
		rule := &v1alpha1.ResourceSyncRule{ObjectMeta: metav1.ObjectMeta{Name: name}}
		rule.Spec.GVK = v1alpha1.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
		names := make([]string, many)
		for n := range names {
			names[n] = fmt.Sprint("n", from+n)
		}
		rule.Spec.Rules = []v1alpha1.SyncRule{{Matches: []v1alpha1.SyncRuleMatch{{Namespaces: names}}}}
		return rule
	}
	secrets := wide("r", 0)
	secrets.Spec.GVK.Kind = "Secret"
	paused, elsewhere, featured := wide("r", 0), wide("r", 0), wide("r", 0)
	paused.Spec.Paused = true
	elsewhere.Spec.Targets = &v1alpha1.ClusterSelector{Names: []string{"elsewhere"}}
	featured.Spec.ClusterFeatureMatches = []v1alpha1.ClusterFeatureMatch{{FeatureName: "f"}}
	broken := wide("r", 0)
	broken.Spec.Rules[0].Matches[0].Namespaces = []string{"No"}
	for what, tc := range map[string]struct {
		before, now *v1alpha1.ResourceSyncRule
		watches     int
	}{
		"a new one":                {nil, wide("r", 0), many},
		"the same":                 {wide("r", 0), wide("r", 0), 0},
		"ten others":               {wide("r", 0), wide("r", 10), 10},
		"all others":               {wide("r", 0), wide("r", many), many},
		"of another kind":          {secrets, wide("r", 0), many},
		"one that is not in force": {nil, broken, 0},
		"one that was not":         {broken, wide("r", 0), many},
		"one that was paused":      {paused, wide("r", 0), many},
		"one of other targets":     {elsewhere, wide("r", 0), many},
		"one of other sources":     {featured, wide("r", 0), many},
	} {
		if got := watchesCost(tc.before, tc.now); got != tc.watches*watchCost {
			t.Errorf("%s costs %d, want %d watches", what, got, tc.watches)
		}
	}

	f := newFlooded(t, quota.NewLimits(4*many*watchCost, 1, 1<<20, 1<<20))
	for n := range 8 {
		data, err := payload.EncodeRule(wide(fmt.Sprint("r-", n), many*n))
		if err != nil {
			t.Fatal(err)
		}
		f.publish(t, agenttest.IDB, payload.RuleKey(fmt.Sprint("r-", n)), data)
	}
	if written := 8 - f.budget.Waiting(); written != 4 {
		t.Errorf("%d of them are written at once, want 4", written)
	}
}

// Who has thousands of rules cannot have others write thousands of times by leaving, either.
func TestOrphansWait(t *testing.T) {
	t.Parallel()
	const atOnce, more, perSecond = 24, 16, 8
	began := time.Now()
	limits := quota.NewLimits(1<<20, 1<<20, atOnce, perSecond)
	f := newFlooded(t, limits)
	f.o.Gone = func(id string) bool { return id == agenttest.IDB }
	for n := range atOnce + more {
		rule := &v1alpha1.ResourceSyncRule{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("r-", n)}}
		payload.MarkCopy(rule, payload.Meta{}, agenttest.IDB)
		if err := f.o.Registry.Put(rule); err != nil {
			t.Fatal(err)
		}
		f.api.SetObject(rule.Name, []byte(`{"apiVersion":"roster.invalid/v1","kind":"ResourceSyncRule","metadata":{"name":"`+rule.Name+`"}}`))
	}
	for n := range atOnce + more {
		f.imports(t, payload.RuleKey(fmt.Sprint("r-", n)))
	}
	marked := f.api.Reads // a change is a patch, which is answered as a read
	if n := marked(); n < atOnce || n > atOnce+1+int(time.Since(began).Seconds()*perSecond) {
		t.Errorf("%d are marked at once, of %d", n, atOnce+more)
	}
	f.drains(t, func() bool { return marked() >= atOnce+more })
}

// rule publishes a rule, and imports it.
func (f *flooded) rule(t *testing.T, id, name string) {
	t.Helper()
	rule := &v1alpha1.ResourceSyncRule{ObjectMeta: metav1.ObjectMeta{Name: name}}
	rule.Spec.GVK = v1alpha1.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	data, err := payload.EncodeRule(rule)
	if err != nil {
		t.Fatal(err)
	}
	f.publish(t, id, payload.RuleKey(name), data)
}

// says is what is said of what waits now.
func (f *flooded) says() string {
	f.backlog.look(time.Now())
	return f.Slowed()
}

// drains runs the importer until all is written.
func (f *flooded) drains(t *testing.T, all func() bool) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = f.Run(ctx) }()
	for deadline := time.Now().Add(time.Minute); !all() && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
	}
	cancel()
	<-done
	if !all() {
		t.Error("its turn does not come")
	}
}
