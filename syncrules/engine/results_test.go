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

	"github.com/roster-mesh/roster/syncrules/engine/problem"
	"github.com/roster-mesh/roster/syncrules/engine/tally"
)

// What fails for good is told once: that it is tried again is no news, of however many objects.
func TestWhatGoesOnFailingIsToldOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		w.local.admits(func(o *unstructured.Unstructured) error {
			return errForbidden(o, "ValidatingAdmissionPolicy 'no' with binding 'no' denied request: no")
		})
		w.setRule(testRule("r"))
		for i := range 5 {
			w.peers[a].put(configMap(fmt.Sprintf("x%d", i), "1"))
		}
		w.settle()
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonAdmissionRefused)
		if r := w.report("r"); r.Failed != 5 || len(r.LastErrors) != 5 {
			t.Errorf("report %+v", r)
		}
		sent, tried := w.sentReports(), w.local.count("create")
		time.Sleep(time.Hour)
		if n := w.sentReports() - sent; n > 0 {
			t.Errorf("%d reports", n)
		}
		if w.local.count("create") == tried {
			t.Error("they were not tried again")
		}
		w.local.admits(nil)
		time.Sleep(time.Minute)
		w.settle()
		w.wantReady("r", metav1.ConditionTrue, problem.ReasonSynced)
		if r := w.report("r"); r.Failed != 0 || r.Synced != 5 || len(r.LastErrors) != 0 {
			t.Errorf("report %+v", r)
		}
	})
}

// Of more failures than are told some are told as long as there are any, of each reason.
func TestToldFailuresAreReplaced(t *testing.T) {
	inWorld(t, func(w *world) {
		refused := func(o *unstructured.Unstructured) bool { return strings.HasPrefix(o.GetName(), "x") }
		fixed := ""
		w.local.admits(func(o *unstructured.Unstructured) error {
			if !refused(o) || strings.Contains(fixed, o.GetName()+" ") {
				return nil
			}
			return errForbidden(o, "ValidatingAdmissionPolicy 'no' with binding 'no' denied request: no")
		})
		w.setRule(testRule("r"))
		for i := range 50 {
			w.peers[a].put(configMap(fmt.Sprintf("x%02d", i), "1"))
		}
		w.settle()
		told := w.report("r").LastErrors
		if len(told) != tally.MaxErrors {
			t.Fatalf("%d are told", len(told))
		}
		w.local.mu.Lock()
		for _, text := range told {
			name, _, _ := strings.Cut(strings.TrimPrefix(text, "ConfigMap default/"), ":")
			fixed += name + " "
		}
		w.local.mu.Unlock()
		time.Sleep(10 * time.Minute)
		w.settle()
		r := w.report("r")
		if r.Failed != 50-tally.MaxErrors || len(r.LastErrors) != tally.MaxErrors {
			t.Errorf("%d fail, %d are told", r.Failed, len(r.LastErrors))
		}
		if m := r.Conditions[0].Message; !strings.Contains(m, "ConfigMap default/x") {
			t.Errorf("message %q", m)
		}
	})
}

// The lag of a source is that of its last change; what was restored here had none.
func TestLagIsThatOfChanges(t *testing.T) {
	inWorld(t, func(w *world) {
		lag := func() time.Duration {
			w.e.mu.Lock()
			defer w.e.mu.Unlock()
			return w.e.rules.byName["r"].tally.Source(a).Lag
		}
		w.local.late = 30 * time.Millisecond
		w.setRule(testRule("r"))
		w.peers[a].put(configMap("x", "0"))
		w.settle()
		first := lag()
		if first < w.local.late || first > time.Second {
			t.Errorf("lag %s", first)
		}
		time.Sleep(time.Hour)
		w.local.remove(cm("x"))
		w.settle()
		w.wantValue(cm("x"), "0")
		if got := lag(); got != first {
			t.Errorf("lag %s after a copy was restored", got)
		}
		w.restart(func() {})
		time.Sleep(time.Hour)
		w.local.remove(cm("x"))
		w.settle()
		if got := lag(); got > time.Second {
			t.Errorf("lag %s after a restart", got)
		}
		w.peers[a].put(configMap("x", "1"))
		w.settle()
		if got := lag(); got < w.local.late || got > time.Second {
			t.Errorf("lag %s of a change", got)
		}
	})
}
