// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package profiles

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/agent/agenttest"
	"github.com/roster-mesh/roster/kube"
)

func TestErrorsOfWrites(t *testing.T) {
	where := schema.GroupResource{Resource: "clusterprofiles"}
	for name, test := range map[string]struct {
		err     error
		retried bool
		problem string
		event   string
	}{
		"no namespace": {err: apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "inventory"), problem: "create the namespace inventory"},
		"no right":     {err: fmt.Errorf("%w: create", kube.ErrForbidden), problem: "publish.clusterProfiles=true"},
		"refused":      {err: apierrors.NewInvalid(schema.GroupKind{Kind: "ClusterProfile"}, "beta", nil), event: "is refused"},
		"a webhook":    {err: apierrors.NewBadRequest("admission webhook denied the request"), event: "is refused"},
		"throttled":    {err: apierrors.NewTooManyRequests("later", 1), retried: true},
		"lost race":    {err: apierrors.NewAlreadyExists(where, "beta")},
		"no answer":    {err: kube.ErrUnreachable, retried: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRoom(t)
			r.put(agenttest.Cluster("beta", agenttest.IDB))
			r.err = test.err
			if err := r.p.reconcile(t.Context(), "beta"); (err != nil) != test.retried {
				t.Errorf("error %v", err)
			}
			if got := r.problems.String(); !strings.Contains(got, test.problem) || (got == "") != (test.problem == "") {
				t.Errorf("problem %q, want %q", got, test.problem)
			}
			if got := strings.Join(r.events, ""); !strings.Contains(got, test.event) || (got == "") != (test.event == "") {
				t.Errorf("event %q, want %q", got, test.event)
			}
			r.err = nil
			if r.reconcile("beta"); r.problems.String() != "" {
				t.Errorf("still a problem: %s", &r.problems)
			}
		})
	}
}

// What is wrong for all profiles is one problem, whose text stays the same, and one of them is tried again. When that works,
// all are tried.
func TestOneProfileProbes(t *testing.T) {
	r := newRoom(t)
	changes := 0
	r.problems.Watch(func() { changes++ })
	var names []string
	for i, id := range []string{agenttest.IDA, agenttest.IDB, agenttest.IDC} {
		names = append(names, fmt.Sprint("c", i))
		r.put(agenttest.Cluster(names[i], id))
	}
	all := func() (writes int) {
		for _, name := range names {
			writes += r.reconcile(name)
		}
		return writes
	}
	missing := apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "inventory")
	for i, name := range names { // the text of a real one names the object
		r.err = fmt.Errorf("%w: cannot create %s", kube.ErrForbidden, name)
		if i == 0 {
			r.err = missing
		}
		r.reconcile(name)
	}
	if got := r.problems.String(); changes != 2 || strings.Contains(got, "c1") || !strings.Contains(got, "publish.clusterProfiles=true; --publish-namespace: create the namespace inventory") {
		t.Fatalf("problem %q, changed %d times", got, changes)
	}
	r.err = missing
	for range 20 {
		before := r.p.failures.probe
		if n := r.reconcile(before); n != 1 {
			t.Fatalf("the probe takes %d writes", n)
		}
		waits := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == r.p.failures.probe })
		if n := r.reconcile(waits[0]) + r.reconcile(waits[1]); n != 0 || r.p.failures.probe == before {
			t.Fatalf("the others take %d writes, the next probe is %s after %s", n, r.p.failures.probe, before)
		}
	}
	// A watch that works, and a profile that does, are not all.
	received{r.p}.Health(nil)
	r.err = nil
	if r.reconcile(r.p.failures.probe); r.problems.String() == "" {
		t.Fatal("there is no problem before all are written")
	}
	if all(); r.problems.String() != "" || r.held("c0") == nil || r.held("c1") == nil || r.held("c2") == nil {
		t.Fatalf("still a problem: %q", &r.problems)
	}
	// The watch alone.
	received{r.p}.Health(kube.ErrForbidden)
	if all(); !strings.Contains(r.problems.String(), "publish.clusterProfiles=true") {
		t.Fatalf("problem %q", &r.problems)
	}
	received{r.p}.Serve(schema.GroupVersionKind{})
	if r.problems.String() != "" {
		t.Fatalf("a problem without the CRD: %q", &r.problems)
	}
}

// To send again what was refused is of no use; all else may work the next time.
func TestRefused(t *testing.T) {
	for code, want := range map[int32]bool{
		http.StatusBadRequest: true, http.StatusUnprocessableEntity: true, http.StatusRequestEntityTooLarge: true,
		http.StatusUnauthorized: false, http.StatusNotFound: false, http.StatusConflict: false, http.StatusTooManyRequests: false, http.StatusInternalServerError: false,
	} {
		err := fmt.Errorf("as kube has it: %w", &apierrors.StatusError{ErrStatus: metav1.Status{Code: code}})
		if isRefused(err) != want {
			t.Errorf("%d: refused %t", code, !want)
		}
	}
	if isRefused(errors.New("no answer")) {
		t.Error("no answer is no refusal")
	}
}
