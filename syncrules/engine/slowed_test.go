// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/engine/problem"
	"github.com/roster-mesh/roster/syncrules/engine/quota"
	"github.com/roster-mesh/roster/syncrules/packed"
)

const (
	floodBytes, floodBytesPerSecond = 1 << 20, 4 << 10
	floodWrites, floodPerSecond     = 100, 2
)

// withQuota restarts the engine with limits that a test reaches, and counts what each cluster has written here.
func withQuota(w *world) (bytes, writes map[string]float64) {
	w.kill()
	bytes, writes = map[string]float64{}, map[string]float64{}
	w.local.admits(func(o *unstructured.Unstructured) error { // with the lock of the server
		bytes[syncrules.Owner(o)] += float64(packed.SizeOf(o.Object))
		writes[syncrules.Owner(o)]++
		return nil
	})
	w.options = func(o *Options) {
		o.Quota = quota.NewLimits(floodBytes, floodBytesPerSecond, floodWrites, floodPerSecond)
	}
	w.start()
	return bytes, writes
}

// One source changes large objects all the time: what is written because of it is bounded, the other source does not wait,
// a deletion passes, and in the end each copy has the newest content.
func TestFloodOfOneSource(t *testing.T) {
	inWorld(t, func(w *world) {
		bytes, writes := withQuota(w)
		began := time.Now()
		w.setRule(testRule("r"))
		const objects, size = 20, 32 << 10
		content := func(name string, n int) *unstructured.Unstructured {
			obj := configMap(name, fmt.Sprint(n))
			return withAnnotations(obj, map[string]string{"big": strings.Repeat("x", size)})
		}
		name := func(i int) string { return fmt.Sprintf("flood-%02d", i) }
		for n := range 200 {
			for i := range objects {
				w.peers[a].put(content(name(i), n))
			}
			w.peers[b].put(configMap("honest", fmt.Sprint(n)))
			time.Sleep(500 * time.Millisecond)
			if n%10 == 9 {
				w.now()
				w.wantValue(cm("honest"), fmt.Sprint(n))
			}
		}
		within := func(what string) {
			t.Helper()
			passed := time.Since(began).Seconds()
			w.local.mu.Lock()
			defer w.local.mu.Unlock()
			most := floodBytes + passed*floodBytesPerSecond + DefaultWorkers*1.1*size // what was under way as the last of it was used up
			if bytes[a] > most || bytes[a] < most/2 {
				t.Errorf("%s: %.0f bytes were written in %.0f s, want at most %.0f, and half of that", what, bytes[a], passed, most)
			}
		}
		within("while it lasts")
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonSlowed)
		if m := w.report("r").Conditions[0].Message; !strings.Contains(m, "because of cluster "+a) {
			t.Errorf("the rule says %q", m)
		}
		w.peers[a].remove(cm(name(0)))
		w.now()
		w.wantGone(cm(name(0)))

		time.Sleep(objects * size / floodBytesPerSecond * 2 * time.Second)
		w.settle()
		for i := 1; i < objects; i++ {
			w.wantValue(cm(name(i)), "199")
		}
		w.wantReady("r", metav1.ConditionTrue, problem.ReasonSynced)
		within("in the end")
		if w.e.outcomes.quota.Waiting() != 0 || writes[b] < 100 {
			t.Errorf("%d wait; the other cluster has %v writes", w.e.outcomes.quota.Waiting(), writes[b])
		}
	})
}

// So it is with many small objects, which come in the order in which they were made.
func TestFloodOfSmallObjects(t *testing.T) {
	inWorld(t, func(w *world) {
		_, writes := withQuota(w)
		began := time.Now()
		w.setRule(testRule("r"))
		const objects = 1000
		for i := range objects {
			w.peers[a].put(configMap(fmt.Sprintf("x%04d", i), "1"))
		}
		time.Sleep(10 * time.Second)
		w.peers[b].put(configMap("honest", "1"))
		w.now()
		w.wantValue(cm("honest"), "1")
		w.local.mu.Lock()
		got, most := writes[a], floodWrites+floodPerSecond*time.Since(began).Seconds()+DefaultWorkers
		w.local.mu.Unlock()
		if got > most {
			t.Errorf("%v writes, want at most %v", got, most)
		}
		time.Sleep(objects / floodPerSecond * time.Second)
		w.settle()
		if n := len(w.local.names("ConfigMap")); n != objects+1 {
			t.Errorf("%d copies of %d", n, objects+1)
		}
		w.wantReady("r", metav1.ConditionTrue, problem.ReasonSynced)
	})
}

// A copy that waits is not looked at for each change of its source, and gets the newest content.
func TestChangesOfWhatWaitsCostNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		withQuota(w)
		w.setRule(testRule("r"))
		const objects, changes = 2 * floodWrites, 20
		put := func(n int) {
			for i := range objects {
				w.peers[a].put(configMap(fmt.Sprint("x", i), fmt.Sprint(n)))
			}
			time.Sleep(time.Second)
		}
		put(0)
		put(1)
		decided := w.decisions()
		for n := range changes {
			put(2 + n)
		}
		if n := w.decisions() - decided; n > 2*changes*floodPerSecond {
			t.Errorf("%d decisions in %d seconds", n, changes)
		}
		time.Sleep(2 * objects / floodPerSecond * time.Second)
		w.settle()
		for i := range objects {
			w.wantValue(cm(fmt.Sprint("x", i)), fmt.Sprint(1+changes))
		}
		w.wantReady("r", metav1.ConditionTrue, problem.ReasonSynced)
	})
}

// What a rule makes of an object is not looked at before its copy's turn comes: hundreds of rules that are edited all the time would have it done for thousands of
// copies, most of which are not written before the next edit.
func TestWhatWaitsIsNotRendered(t *testing.T) {
	inWorld(t, func(w *world) {
		withQuota(w)
		const objects = floodWrites + 20*floodPerSecond
		for i := range objects {
			w.peers[a].put(configMap(fmt.Sprint("x", i), "1"))
		}
		w.setRule(testRule("r"))
		time.Sleep(time.Second)
		broken := testRule("broken", "y")
		broken.Spec.Rules[0].Mutations.Overrides = []v1alpha1.Override{{Path: "/data/v", Value: "{{ .Object.Data.none }}"}}
		w.peers[a].put(configMap("y", "1"))
		w.setRule(broken)
		time.Sleep(time.Second)
		if c := w.report("broken").Conditions[0]; c.Reason != problem.ReasonSlowed {
			t.Errorf("while it waits the rule says %+v", c)
		}
		time.Sleep(time.Minute)
		w.settle()
		if c := w.report("broken").Conditions[0]; c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, "there is no value") {
			t.Errorf("when its turn has come the rule says %+v", c)
		}
	})
}

// The rules of a member have copies made under other names again and again: that the old ones are marked as orphans waits for nothing, and is paid for with what is
// written then.
func TestMarksOfOrphansAreCharged(t *testing.T) {
	inWorld(t, func(w *world) {
		_, writes := withQuota(w)
		began := time.Now()
		const objects, edits = 50, 60
		for i := range objects {
			w.peers[b].put(configMap(fmt.Sprint("x", i), "1"))
		}
		for n := range edits {
			w.setRule(by(a, 0, moving(testRule("bad"), "name", fmt.Sprintf("bad-%d-{{ .Object.GetName }}", n))))
			time.Sleep(10 * time.Second)
		}
		w.local.mu.Lock()
		got, most := writes[b], floodWrites+1.5*floodPerSecond*time.Since(began).Seconds()+DefaultWorkers+objects // twice as many without
		w.local.mu.Unlock()
		if got > most || got < most/2 {
			t.Errorf("%v writes, want at most %v, and half of that", got, most)
		}
	})
}

// A copy that waits and is not wanted any more leaves the line.
func TestNothingWaitsForARuleThatIsGone(t *testing.T) {
	inWorld(t, func(w *world) {
		withQuota(w)
		w.setRule(testRule("r"))
		for i := range 200 {
			w.peers[a].put(configMap(fmt.Sprintf("x%04d", i), "1"))
		}
		w.settle()
		if w.e.outcomes.quota.Waiting() == 0 {
			t.Fatal("nothing waits")
		}
		delete(w.rules, "r")
		w.e.DeleteRule("r")
		w.settle()
		if n := w.e.outcomes.quota.Waiting(); n != 0 {
			t.Errorf("%d wait", n)
		}
	})
}

// While the local API server takes nothing, nobody's quota is used up: what changed follows at once when it serves again.
func TestOutageUsesUpNoQuota(t *testing.T) {
	inWorld(t, func(w *world) {
		withQuota(w)
		w.local.admits(func(*unstructured.Unstructured) error {
			return statusError(503, metav1.StatusReasonServiceUnavailable, "etcdserver: request timed out")
		})
		w.setRule(testRule("r"))
		const objects = floodWrites - 10
		for i := range objects {
			w.peers[a].put(configMap(fmt.Sprintf("x%04d", i), "1"))
		}
		time.Sleep(10 * time.Minute)
		if n := w.local.count("create"); n < 2*floodWrites+10*60*floodPerSecond {
			t.Errorf("%d tries: fewer than would use up the quota", n)
		}
		w.local.admits(nil)
		w.peers[a].put(configMap("new", "1"))
		w.now()
		w.wantValue(cm("new"), "1")
		time.Sleep(20 * time.Second) // the longest back-off
		w.settle()
		if n := len(w.local.names("ConfigMap")); n != objects+1 {
			t.Errorf("%d copies of %d", n, objects+1)
		}
	})
}

// Where a webhook is slow about one kind, the copies of others that wait follow as fast as the quota allows.
func TestSlowCopyHoldsUpNoTurn(t *testing.T) {
	inWorld(t, func(w *world) {
		withQuota(w)
		w.local.mu.Lock()
		w.local.lateKinds = map[string]time.Duration{"Secret": 10 * time.Second}
		w.local.mu.Unlock()
		w.setRule(testRule("r"))
		r := testRule("secrets")
		r.Spec.GVK = v1alpha1.GroupVersionKind{Version: "v1", Kind: "Secret"}
		w.setRule(r)
		for i := range floodWrites {
			w.peers[a].put(configMap(fmt.Sprintf("x%04d", i), "1"))
		}
		w.now()
		began := time.Now()
		const pairs = 100
		for i := range pairs {
			w.peers[a].put(secret(fmt.Sprintf("s%04d", i), "1"))
			w.peers[a].put(configMap(fmt.Sprintf("y%04d", i), "1"))
		}
		waiting := func() int {
			w.e.mu.Lock()
			defer w.e.mu.Unlock()
			return w.e.outcomes.quota.Waiting()
		}
		for waiting() > 0 && time.Since(began) < time.Hour {
			w.settle()
		}
		if took := time.Since(began); took > 3*2*pairs/floodPerSecond*time.Second {
			t.Errorf("it took %s", took)
		}
	})
}
