// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/roster-mesh/roster/kube/api/crdversion"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// What an object needs comes before it, and nothing that needs nodes is among them.
func TestOrder(t *testing.T) {
	t.Parallel()
	all, err := All()
	if err != nil {
		t.Fatal(err)
	}
	order := []string{"Namespace", "CustomResourceDefinition", "", "ValidatingAdmissionPolicy", "consent"}
	last, namespaces := 0, map[string]bool{"default": true}
	for _, object := range all {
		at := slices.Index(order, strings.TrimSuffix(object.GetKind(), "Binding"))
		if at < 0 {
			at = slices.Index(order, "")
		}
		if object.GetName() == consent && order[at] == "ValidatingAdmissionPolicy" {
			at++
		}
		if at < last {
			t.Errorf("%s %s comes late", object.GetKind(), object.GetName())
		}
		last = at
		if got := stage(object); got != at {
			t.Errorf("%s %s is applied in stage %d, not %d", object.GetKind(), object.GetName(), got, at)
		}
		if object.GetKind() == "Namespace" {
			namespaces[object.GetName()] = true
		}
		if ns := object.GetNamespace(); ns != "" && !namespaces[ns] {
			t.Errorf("%s %s is in namespace %s, which is not made", object.GetKind(), object.GetName(), ns)
		}
		switch object.GetKind() {
		case "Namespace", "CustomResourceDefinition", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding",
			"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding":
		default:
			t.Errorf("%s %s is not served", object.GetKind(), object.GetName())
		}
	}
	if final := all[len(all)-1]; stage(final) != 4 {
		t.Errorf("%s %s is the last one: Enforced goes by consent", final.GetKind(), final.GetName())
	}
	if !namespaces[Namespace] {
		t.Errorf("namespace %s is not made", Namespace)
	}
}

// The agent's certificate is for the account that the chart binds its rights to.
func TestAgentUser(t *testing.T) {
	t.Parallel()
	all, err := All()
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range all {
		if object.GetKind() == "ServiceAccount" && AgentUser == "system:serviceaccount:"+object.GetNamespace()+":"+object.GetName() {
			return
		}
	}
	t.Errorf("there is no account for %s", AgentUser)
}

// An older program that is started again, or stands beside a newer one, takes nothing from a newer CRD; and a newer one does not
// skip a version that it names.
func TestApplyOfCRD(t *testing.T) {
	t.Parallel()
	crd := func(version, oldest string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{}
		u.SetAPIVersion("apiextensions.k8s.io/v1")
		u.SetKind(kindCRD)
		u.SetName("c")
		u.SetAnnotations(map[string]string{v1alpha1.AnnotationSchemaVersion: version, v1alpha1.AnnotationSchemaOldestAgent: oldest})
		return u
	}
	for name, test := range map[string]struct {
		have    *unstructured.Unstructured
		applied bool
		refused bool
	}{
		"new":            {nil, true, false},
		"the one before": {crd("5", "1"), true, false},
		"the same":       {crd("6", "5"), true, false},
		"newer":          {crd("7", "1"), false, false},
		"too old":        {crd("4", "1"), false, true},
	} {
		client := &oneObject{live: test.have}
		err := apply(t.Context(), client, crd("6", "5"))
		if client.applied != test.applied || errors.Is(err, crdversion.ErrSkipped) != test.refused || (err != nil) != test.refused {
			t.Errorf("%s: applied: %t, %v", name, client.applied, err)
		}
	}
}

// So it is with everything else, object by object: two servers of different versions may start at the same time.
func TestApplyOfNewer(t *testing.T) {
	t.Parallel()
	role := func(version string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{}
		u.SetKind("ClusterRole")
		u.SetName("c")
		u.SetLabels(map[string]string{labelVersion: version})
		u.SetResourceVersion("7")
		return u
	}
	for version, applied := range map[string]bool{"0.1.0": true, "0.2.0": true, "0.10.0": false, "1.0.0-rc.1": false, "theirs": true} {
		client := &oneObject{live: role(version)}
		if err := apply(t.Context(), client, role("0.2.0")); err != nil || client.applied != applied {
			t.Errorf("over version %s: applied: %t, %v", version, client.applied, err)
		}
	}
}

// oneObject is an API server with at most one object.
type oneObject struct {
	dynamic.ResourceInterface
	live    *unstructured.Unstructured
	applied bool
}

func (o *oneObject) Get(context.Context, string, metav1.GetOptions, ...string) (*unstructured.Unstructured, error) {
	if o.live == nil {
		return nil, apierrors.NewNotFound(schema.GroupResource{}, "c")
	}
	return o.live, nil
}

func (o *oneObject) Apply(_ context.Context, _ string, u *unstructured.Unstructured, _ metav1.ApplyOptions, _ ...string) (*unstructured.Unstructured, error) {
	o.applied = true
	return u, nil
}

// A kind of a CRD is asked for until it can be watched, without the second that the answer names.
func TestAwaitWatches(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	asked := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if asked[r.URL.Path]++; asked[r.URL.Path] < 3 || r.URL.Query().Get("watch") != "true" {
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	t.Cleanup(server.Close)
	kinds, err := discovery.NewDiscoveryClientForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	if err := awaitWatches(t.Context(), kinds); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	want := map[string]int{}
	for _, plural := range []string{"clusters", "clusterfeatures", "resourcesyncrules"} {
		want["/apis/clusterregistry.k8s.cisco.com/v1alpha1/"+plural] = 3
	}
	if !maps.Equal(asked, want) {
		t.Errorf("asked %v, want %v", asked, want)
	}
}

// A CRD that is new is said to be older, and one that is not, or is not established, stays as it is.
func TestBackdate(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, tt := range map[string]struct{ status, since, want string }{
		"new":             {"True", "2026-01-02T03:04:06Z", "2026-01-02T03:04:05Z"},
		"not new":         {"True", "2026-01-02T03:04:05Z", ""},
		"not established": {"False", "2026-01-02T03:04:06Z", ""},
		"no time":         {"True", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			crd := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": []any{
				map[string]any{"type": "NamesAccepted", "status": "True", "lastTransitionTime": "2026-01-02T03:04:06Z"},
				map[string]any{"type": "Established", "status": tt.status, "lastTransitionTime": tt.since},
			}}}}
			if got := backdate(crd, at); got != (tt.want != "") {
				t.Fatalf("changed: %v", got)
			}
			conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
			want := cmp.Or(tt.want, tt.since)
			if got := conditions[1].(map[string]any)["lastTransitionTime"]; got != want {
				t.Errorf("established since %v, want %s", got, want)
			}
			if got := conditions[0].(map[string]any)["lastTransitionTime"]; got != "2026-01-02T03:04:06Z" {
				t.Errorf("NamesAccepted has changed to %v", got)
			}
		})
	}
}

// The question whether policies are in force is not a create: the API server answers that two seconds later while a CRD is new.
func TestEnforced(t *testing.T) {
	t.Parallel()
	warns, refuses, busy := http.StatusOK, http.StatusForbidden, http.StatusTooManyRequests
	for _, test := range []struct {
		name    string
		status  int
		warning string
		want    bool
	}{
		{"it warns", warns, consent + " says no", true},
		{"it does not warn", warns, "", false},
		{"another policy warns", warns, "not by us", false},
		{"something else refuses", refuses, "", true},
		{"no answer yet", busy, "", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodPatch || r.Header.Get("Content-Type") != string(types.ApplyPatchType) || r.URL.Query().Get("dryRun") != metav1.DryRunAll {
					t.Errorf("%s %s of type %s", r.Method, r.URL, r.Header.Get("Content-Type"))
				}
				var asked metav1.PartialObjectMetadata
				if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || asked.Name == "" || !strings.HasSuffix(r.URL.Path, "/"+asked.Name) {
					t.Errorf("%s of an object named %q: %v", r.URL.Path, asked.Name, err)
				}
				if test.warning != "" {
					w.Header().Set("Warning", fmt.Sprintf("299 - %q", test.warning))
				}
				w.WriteHeader(test.status)
			}))
			t.Cleanup(server.Close)
			client, err := discovery.NewDiscoveryClientForConfig(&rest.Config{Host: server.URL})
			if err != nil {
				t.Fatal(err)
			}
			if got := Enforced(t.Context(), client.RESTClient()); got != test.want {
				t.Errorf("in force: %t", got)
			}
		})
	}
}
