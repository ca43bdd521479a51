// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/engine/pace"
	"github.com/roster-mesh/roster/syncrules/engine/problem"
	"github.com/roster-mesh/roster/syncrules/engine/tally"
)

func statusError(code int32, reason metav1.StatusReason, message string, causes ...metav1.StatusCause) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message, Details: &metav1.StatusDetails{Causes: causes},
	}}
}

func errInvalidCause(message string) error {
	return statusError(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "it is invalid: "+message,
		metav1.StatusCause{Type: metav1.CauseTypeFieldValueInvalid, Field: "spec.x", Message: message})
}

func errForbidden(o *unstructured.Unstructured, why string) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, o.GetName(), errors.New(why))
}

// Each reason that a write can fail for is named and says what to do, is tried again with back-off, and holds up
// no other object.
func TestReasonsOfFailedWrites(t *testing.T) {
	policy := `ValidatingAdmissionPolicy 'no-x' with binding 'no-x' denied request: x is not for this cluster`
	webhook := `admission webhook "check.example.com" denied the request: x is not for this cluster`
	cases := map[string]struct {
		err          error
		reason, says string
		tries        int // in ten minutes
	}{
		"right":     {statusError(403, metav1.StatusReasonForbidden, `configmaps is forbidden: User "agent" cannot create resource "configmaps"`), problem.ReasonMissingPermission, v1alpha1.LabelControllerAggregated, 40},
		"webhook":   {statusError(400, "", webhook), problem.ReasonAdmissionRefused, "x is not for this cluster", 40},
		"policy":    {statusError(422, metav1.StatusReasonInvalid, `configmaps "x" is forbidden: `+policy), problem.ReasonAdmissionRefused, "x is not for this cluster", 40},
		"no answer": {statusError(500, metav1.StatusReasonInternalError, `Internal error occurred: failed calling webhook "check.example.com": failed to call webhook: EOF`), problem.ReasonAdmissionRefused, "check.example.com", 40},
		"pod":       {statusError(403, metav1.StatusReasonForbidden, `pods "x" is forbidden: violates PodSecurity "restricted:latest": privileged`), problem.ReasonAdmissionRefused, "restricted", 40},
		"quota":     {statusError(403, metav1.StatusReasonForbidden, `configmaps "x" is forbidden: exceeded quota: q, requested: count/configmaps=1, used: 5, limited: 5`), problem.ReasonQuotaExceeded, "raise the quota", 40},
		"request":   {statusError(413, metav1.StatusReasonRequestEntityTooLarge, "Request entity too large: limit is 3145728"), problem.ReasonObjectTooLarge, "smaller", 20},
		"etcd":      {statusError(500, "", "etcdserver: request is too large"), problem.ReasonObjectTooLarge, "smaller", 20},
		"grpc":      {statusError(500, "", "rpc error: code = ResourceExhausted desc = trying to send message larger than max (2097162 vs. 2097152)"), problem.ReasonObjectTooLarge, "smaller", 20},
		"data": {
			statusError(422, metav1.StatusReasonInvalid, "invalid", metav1.StatusCause{Type: metav1.CauseTypeTooLong, Field: "", Message: "Too long: may not be more than 1048576 bytes"}),
			problem.ReasonObjectTooLarge, "smaller", 20,
		},
		"invalid":     {errInvalidCause("must be a number"), problem.ReasonInvalidObject, "must be a number", 20},
		"bad request": {statusError(400, metav1.StatusReasonBadRequest, "cannot be handled as a ConfigMap"), problem.ReasonInvalidObject, "cannot be handled", 20},
		"other":       {statusError(405, metav1.StatusReasonMethodNotAllowed, "strange"), problem.ReasonWriteFailed, "strange", 40},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				var tries atomic.Int32
				w.local.admits(func(o *unstructured.Unstructured) error {
					if o.GetName() != "x" {
						return nil
					}
					tries.Add(1)
					return c.err
				})
				w.setRule(testRule("r"))
				for _, name := range []string{"x", "y", "z"} {
					w.peers[a].put(configMap(name, "1"))
				}
				w.settle()
				w.wantReady("r", metav1.ConditionFalse, c.reason)
				if m := w.report("r").Conditions[0].Message; !strings.Contains(m, c.says) || !strings.Contains(m, "ConfigMap default/x") {
					t.Errorf("message %q does not say %q", m, c.says)
				}
				w.wantValue(cm("y"), "1")
				w.wantValue(cm("z"), "1")
				if r := w.report("r"); r.Failed != 1 || r.Synced != 2 {
					t.Errorf("report %+v", r)
				}
				time.Sleep(10 * time.Minute)
				if n := int(tries.Load()); n > c.tries {
					t.Errorf("%d tries in ten minutes, want at most %d", n, c.tries)
				}
				w.local.admits(nil)
				w.peers[a].put(configMap("x", "2"))
				w.settle()
				w.wantReady("r", metav1.ConditionTrue, problem.ReasonSynced)
			})
		})
	}
}

// admits sets what the server lets in.
func (s *server) admits(admit func(*unstructured.Unstructured) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.admit = admit
}

func workload(kind, name, selector string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": kind, "metadata": map[string]any{"name": name, "namespace": "default"},
		"spec": map[string]any{"selector": selector, "replicas": int64(1)},
	}}
}

// immutableSelector refuses to change spec.selector, as API servers do. Engine and tests see the server's lock held.
func immutableSelector(s *server) func(*unstructured.Unstructured) error {
	return func(o *unstructured.Unstructured) error {
		old := s.objects[serverKey(o)]
		if old == nil {
			return nil
		}
		was, _, _ := unstructured.NestedString(old.Object, "spec", "selector")
		if is, _, _ := unstructured.NestedString(o.Object, "spec", "selector"); is != was {
			return errInvalidCause("Invalid value: field is immutable")
		}
		return nil
	}
}

func workloadRule(kind string) *v1alpha1.ResourceSyncRule {
	r := testRule("r")
	r.Spec.GVK = v1alpha1.GroupVersionKind{Group: "apps", Version: "v1", Kind: kind}
	return r
}

func TestImmutableFieldIsMadeAnew(t *testing.T) {
	inWorld(t, func(w *world) {
		w.local.admits(immutableSelector(w.local))
		w.setRule(workloadRule("Deployment"))
		w.peers[a].put(workload("Deployment", "d", "one"))
		w.settle()
		k := serverKey(workload("Deployment", "d", ""))
		before := w.local.find(k)
		w.peers[a].put(workload("Deployment", "d", "two"))
		w.now()
		after := w.local.find(k)
		if after == nil || after.GetUID() == before.GetUID() {
			t.Errorf("the copy was not made anew: %v", after)
			return
		}
		if is, _, _ := unstructured.NestedString(after.Object, "spec", "selector"); is != "two" {
			t.Errorf("the copy has %q", is)
		}
		w.settle()
		w.wantReady("r", metav1.ConditionTrue, problem.ReasonSynced)
		if n := w.local.count("delete"); n != 1 {
			t.Errorf("%d deletions, want 1", n)
		}
	})
}

// An API server need not even be asked whether a Service may lose its address.
func TestServiceThatTurnsHeadlessIsMadeAnew(t *testing.T) {
	inWorld(t, func(w *world) {
		service := func(ip string) *unstructured.Unstructured {
			return &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": "s", "namespace": "default"},
				"spec": map[string]any{"clusterIP": ip},
			}}
		}
		r := testRule("r")
		r.Spec.GVK.Kind = "Service"
		w.setRule(r)
		for i, ip := range []string{"10.0.0.1", "None", "10.0.0.2"} {
			w.peers[a].put(service(ip))
			w.settle()
			if n := w.local.count("delete"); n != i || w.local.count("update") != 0 {
				t.Errorf("%s: %d deletions, want %d; %d updates, want none", ip, n, i, w.local.count("update"))
			}
		}
		w.wantReady("r", metav1.ConditionTrue, problem.ReasonSynced)
	})
}

// What a copy was made anew for may come back after the copy was another one; and a deletion that was too late counts for
// nothing.
func TestImmutableFieldComesBack(t *testing.T) {
	inWorld(t, func(w *world) {
		immutable, k := immutableSelector(w.local), serverKey(workload("Deployment", "d", ""))
		late := true
		w.local.admits(func(o *unstructured.Unstructured) error {
			err := immutable(o)
			if err != nil && late { // somebody else writes between the refusal and the deletion
				late = false
				w.local.store(w.local.objects[k].DeepCopy())
			}
			return err
		})
		w.setRule(workloadRule("Deployment"))
		for range 2 {
			for _, selector := range []string{"one", "two"} {
				w.peers[a].put(workload("Deployment", "d", selector))
				w.settle()
				if is, _, _ := unstructured.NestedString(w.local.find(k).Object, "spec", "selector"); is != selector {
					t.Errorf("the copy has %q, want %q", is, selector)
				}
			}
			w.peers[a].remove(k)
			w.settle()
			if w.local.find(k) != nil {
				t.Error("the copy outlives its source")
			}
			if w.e.outcomes.pacer.Allowance(k, time.Now()).Recreated() != 0 {
				t.Error("what the copy was made anew for is noted for ever, though the copy is gone")
			}
		}
		if late {
			t.Error("no deletion was too late")
		}
		w.wantReady("r", metav1.ConditionTrue, problem.ReasonSynced)
	})
}

// A finalizer holds the old copy; the new one follows when it is gone.
func TestImmutableFieldOfWhatHasAFinalizer(t *testing.T) {
	inWorld(t, func(w *world) {
		w.local.admits(immutableSelector(w.local))
		w.setRule(workloadRule("StatefulSet"))
		w.peers[a].put(workload("StatefulSet", "d", "one"))
		w.settle()
		k := serverKey(workload("StatefulSet", "d", ""))
		w.local.edit(k, func(o *unstructured.Unstructured) { o.SetFinalizers([]string{"example.com/hold"}) })
		w.settle()
		w.peers[a].put(workload("StatefulSet", "d", "two"))
		w.settle()
		if o := w.local.find(k); o == nil || o.GetDeletionTimestamp() == nil {
			t.Errorf("the old copy is not in deletion: %v", o)
		}
		w.local.remove(k)
		w.now()
		if o := w.local.find(k); o == nil || o.GetDeletionTimestamp() != nil {
			t.Errorf("it was not made anew: %v", o)
		}
	})
}

// A server that changes what it is given in a field that cannot be changed must not have the copy made anew for
// ever.
func TestImmutableFieldIsMadeAnewOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		immutable := immutableSelector(w.local)
		w.local.admits(func(o *unstructured.Unstructured) error {
			if err := immutable(o); err != nil {
				return err
			}
			unstructured.RemoveNestedField(o.Object, "metadata", "annotations", syncrules.AnnotationShape) // no answer is as before
			return unstructured.SetNestedField(o.Object, fmt.Sprintf("own-%d", w.local.version), "spec", "selector")
		})
		w.setRule(workloadRule("DaemonSet"))
		w.peers[a].put(workload("DaemonSet", "d", "one"))
		w.settle()
		for range 20 {
			w.local.edit(serverKey(workload("DaemonSet", "d", "")), func(o *unstructured.Unstructured) {
				o.SetLabels(map[string]string{v1alpha1.LabelOwnerClusterID: a, "touched": o.GetResourceVersion()})
			})
			w.settle()
		}
		if n := w.local.count("delete"); n > 1 {
			t.Errorf("%d deletions for the same content", n)
		}
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonImmutableField)
	})
}

func TestImmutableObjectIsReported(t *testing.T) {
	inWorld(t, func(w *world) {
		w.local.admits(func(o *unstructured.Unstructured) error {
			if o.GetName() == "x" && w.local.objects[serverKey(o)] != nil {
				return statusError(422, metav1.StatusReasonInvalid, "invalid", metav1.StatusCause{
					Type: metav1.CauseTypeForbidden, Field: "data", Message: "Forbidden: field is immutable when `immutable` is set",
				})
			}
			return nil
		})
		w.setRule(testRule("r"))
		w.peers[a].put(configMap("x", "1"))
		w.peers[a].put(configMap("y", "1"))
		w.settle()
		w.peers[a].put(configMap("x", "2"))
		w.peers[a].put(configMap("y", "2"))
		w.settle()
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonImmutableField)
		if m := w.report("r").Conditions[0].Message; !strings.Contains(m, "delete the copy") {
			t.Errorf("message %q does not say what to do", m)
		}
		w.wantValue(cm("x"), "1")
		w.wantValue(cm("y"), "2")
		w.local.remove(cm("x"))
		w.now()
		w.wantValue(cm("x"), "2")
	})
}

func TestDroppedFieldsAreReported(t *testing.T) {
	inWorld(t, func(w *world) {
		w.local.admits(func(o *unstructured.Unstructured) error {
			unstructured.RemoveNestedField(o.Object, "spec", "selector")
			return nil
		})
		w.setRule(workloadRule("Deployment"))
		w.peers[a].put(workload("Deployment", "d", "one"))
		w.settle()
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonSchemaMismatch)
		if m := w.report("r").Conditions[0].Message; !strings.Contains(m, "spec.selector") || !strings.Contains(m, "CRD") {
			t.Errorf("message %q", m)
		}
		w.local.edit(serverKey(workload("Deployment", "d", "")), func(o *unstructured.Unstructured) {
			_ = unstructured.SetNestedField(o.Object, int64(2), "spec", "replicas")
		})
		w.settle()
		w.wantReady("r", metav1.ConditionFalse, problem.ReasonSchemaMismatch)
		writes := w.local.writes()
		time.Sleep(10 * time.Minute)
		if n := w.local.writes() - writes; n != 0 || writes != 2 {
			t.Errorf("%d writes, and %d more", writes, n)
		}
		w.local.admits(nil)
		w.peers[a].put(workload("Deployment", "d", "two"))
		w.settle()
		w.wantReady("r", metav1.ConditionTrue, problem.ReasonSynced)
	})
}

// A copy that changes too often is written at the pace that is allowed, which the rule and an event say.
func TestSlowDownIsReported(t *testing.T) {
	inWorld(t, func(w *world) {
		w.setRule(testRule("r"))
		w.peers[a].put(configMap("x", "0"))
		w.settle()
		sent := w.sentReports()
		for i := range 400 {
			w.peers[a].put(configMap("x", fmt.Sprint(i)))
			time.Sleep(50 * time.Millisecond)
		}
		if n := w.local.writes(); n > pace.Burst+21*pace.Rate {
			t.Errorf("%d writes in 20 s", n)
		}
		w.wantReady("r", metav1.ConditionTrue, problem.ReasonSlowed)
		if n := w.sentReports() - sent; n > 3 {
			t.Errorf("%d reports in 20 s of one object that changes", n)
		}
		w.settle()
		w.wantValue(cm("x"), "399")
		time.Sleep(2 * slowFor)
		w.wantReady("r", metav1.ConditionTrue, problem.ReasonSynced)
		if len(w.eventsOf(tally.EventRateLimited)) == 0 {
			t.Errorf("there is no event %s", tally.EventRateLimited)
		}
	})
}

// A label that somebody adds to a copy is removed. One that comes back too often for that is a controller's, and stays.
func TestAddedLabelStaysIfItComesBackTooOften(t *testing.T) {
	inWorld(t, func(w *world) {
		w.setRule(testRule("r"))
		w.peers[a].put(configMap("x", "1"))
		w.settle()
		add := func() {
			w.local.edit(cm("x"), func(o *unstructured.Unstructured) {
				set := o.GetLabels()
				set["added"] = "here"
				o.SetLabels(set)
			})
			w.now()
		}
		stays := func() bool { return w.local.find(cm("x")).GetLabels()["added"] != "" }
		for range 3 {
			add()
			w.settle()
			if stays() {
				t.Fatal("a label that comes back every few seconds stays")
			}
		}
		for range pace.Burst + 1 {
			add()
		}
		w.settle()
		if !stays() {
			t.Error("a label that comes back at once is removed for ever")
		}
		w.peers[a].put(configMap("x", "2"))
		w.settle()
		w.wantValue(cm("x"), "2")
	})
}
