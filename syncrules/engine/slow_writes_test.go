// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules/engine/pace"
	"github.com/roster-mesh/roster/syncrules/engine/problem"
)

func secret(name, value string) *unstructured.Unstructured {
	obj := configMap(name, value)
	obj.SetKind("Secret")
	return obj
}

// A webhook that does not answer about hundreds of objects of one kind holds up no others, also not those that are
// put up behind them all; and when it answers again all of its own follow.
func TestSlowWritesHoldUpNoOthers(t *testing.T) {
	inWorld(t, func(w *world) {
		hangs := func(o *unstructured.Unstructured) error {
			if o.GetKind() == "ConfigMap" {
				return statusError(500, metav1.StatusReasonInternalError, `Internal error occurred: failed calling webhook "slow.example.com": deadline exceeded`)
			}
			return nil
		}
		w.local.admits(hangs)
		w.local.lateKinds = map[string]time.Duration{"ConfigMap": 10 * time.Second}
		w.setRule(testRule("maps"))
		r := testRule("secrets")
		r.Spec.GVK = v1alpha1.GroupVersionKind{Version: "v1", Kind: "Secret"}
		w.setRule(r)
		for i := range 500 {
			w.peers[a].put(configMap(fmt.Sprintf("x%03d", i), "1"))
		}
		time.Sleep(20 * time.Second) // until the first ones have told what they are like
		for i := range 50 {
			s := secret(fmt.Sprintf("s%02d", i), "1")
			w.peers[a].put(s)
			time.Sleep(2 * time.Second)
			w.wantValue(serverKey(s), "1")
		}
		w.local.admits(nil)
		w.local.mu.Lock()
		w.local.lateKinds = nil
		w.local.mu.Unlock()
		time.Sleep(10 * time.Minute)
		if n := len(w.local.names("ConfigMap")); n != 500 {
			t.Errorf("%d copies of 500", n)
		}
		w.wantReady("maps", metav1.ConditionTrue, problem.ReasonSynced)
		if !w.e.outcomes.lanes.Empty() {
			t.Errorf("lanes keep %+v", w.e.outcomes.lanes)
		}
	})
}

// Thousands of copies that are refused are tried again at a rate for all of them.
func TestRetriesOfAllTogetherAreBounded(t *testing.T) {
	inWorld(t, func(w *world) {
		w.local.admits(func(o *unstructured.Unstructured) error { return errForbidden(o, "exceeded quota: q") })
		w.setRule(testRule("r"))
		const objects = 3000
		for i := range objects {
			w.peers[a].put(configMap(fmt.Sprintf("x%04d", i), "1"))
		}
		w.settle()
		time.Sleep(10 * time.Minute)
		if n, most := w.local.count("create"), objects*(1+pace.RetryFreely)+pace.RetryBurst+pace.RetryRate*(10*60+10); n > most {
			t.Errorf("%d creates in ten minutes, want at most %d", n, most)
		}
		w.local.admits(nil)
		time.Sleep(2 * time.Minute)
		if n := len(w.local.names("ConfigMap")); n != objects {
			t.Errorf("%d copies two minutes after they may be made", n)
		}
	})
}
