// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/roster-mesh/roster/syncrules/engine/problem"
	"github.com/roster-mesh/roster/syncrules/engine/rights"
)

func withReady(obj *unstructured.Unstructured, ready int64) *unstructured.Unstructured {
	obj.Object["status"] = map[string]any{"ready": ready}
	return obj
}

func (w *world) wantReadyReplicas(k Key, want int64) {
	w.t.Helper()
	obj := w.local.find(k)
	if obj == nil {
		w.t.Errorf("%s does not exist", k)
		return
	}
	if got, _, _ := unstructured.NestedInt64(obj.Object, "status", "ready"); got != want {
		w.t.Errorf("%s has ready %d, want %d", k, got, want)
	}
}

// The status follows by a request of its own where it is a subresource, and with the copy where it is not.
func TestStatusIsSynced(t *testing.T) {
	for name, subresource := range map[string]bool{"subresource": true, "no subresource": false} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.local.statuses = map[string]bool{"Deployment": subresource}
				r := workloadRule("Deployment")
				r.Spec.Rules[0].Mutations.SyncStatus = true
				w.setRule(r)
				w.peers[a].put(withReady(workload("Deployment", "d", "one"), 1))
				w.now()
				k := serverKey(workload("Deployment", "d", ""))
				w.wantReadyReplicas(k, 1)
				if n := w.local.count("status"); n > 1 || !subresource && n != 0 {
					t.Errorf("%d writes of the status", n)
				}
				w.peers[a].put(withReady(workload("Deployment", "d", "one"), 2))
				w.settle()
				w.wantReadyReplicas(k, 2)
				w.local.edit(k, func(o *unstructured.Unstructured) { withReady(o, 7) })
				w.settle()
				w.wantReadyReplicas(k, 2)
				if n := w.local.count("update"); n != 0 {
					t.Errorf("%d updates of a copy whose status alone changed", n)
				}
				w.wantReady("r", metav1.ConditionTrue, problem.ReasonSynced)
				writes := w.local.count("status")
				time.Sleep(time.Hour)
				if n := w.local.count("status"); n != writes {
					t.Errorf("%d more writes of a status that does not change", n-writes)
				}
			})
		})
	}
}

func TestStatusMayNotBeWritten(t *testing.T) {
	inReviewedWorld(t, func(w *world, reviews *reviewer) {
		w.local.statuses = map[string]bool{"Deployment": true}
		w.local.admits(func(o *unstructured.Unstructured) error {
			if o.Object["status"] != nil && w.local.requests["status"] > 0 {
				return errForbidden(o, `User "agent" cannot update resource "deployments/status"`)
			}
			return nil
		})
		reviews.set("/Deployment", rights.UpdateStatus)
		r := workloadRule("Deployment")
		r.Spec.Rules[0].Mutations.SyncStatus = true
		w.setRule(r)
		w.peers[a].put(withReady(workload("Deployment", "d", "one"), 1))
		time.Sleep(time.Minute)
		w.settle()
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonMissingPermission)
		m := w.report("r").Conditions[0].Message
		if !strings.Contains(m, "resources: [deployments, deployments/status], verbs: [get, list, watch, create, update, delete]") {
			t.Errorf("message %q", m)
		}
	})
}
