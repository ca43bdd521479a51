// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestMissingRightsNamesWhatIsMissing(t *testing.T) {
	withAPI(t, func(t *testing.T, a *api, c *Client) {
		a.widgets = true
		allowed := func(verb, _ string) bool { return verb == "get" }
		a.handle = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var review authorizationv1.SelfSubjectAccessReview
			raw, _ := io.ReadAll(r.Body)
			if r.URL.Path != "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews" {
				http.NotFound(w, r)
				return
			}
			_ = json.Unmarshal(raw, &review)
			review.Kind, review.APIVersion = "SelfSubjectAccessReview", "authorization.k8s.io/v1"
			review.Status.Allowed = allowed(review.Spec.ResourceAttributes.Verb, review.Spec.ResourceAttributes.Namespace)
			writeJSON(w, http.StatusCreated, review)
		})
		widget := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}
		node := schema.GroupVersionKind{Version: "v1", Kind: "Node"}
		missing, err := c.MissingRights(t.Context(), []Attributes{
			{"list", widget, ""}, {"get", widget, ""}, {"watch", secretKind, "a"}, {"delete", node, "a"},
		})
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"list widgets.example.com in all namespaces", "watch secrets in namespace a", "delete nodes"}
		if diff := cmp.Diff(want, missing); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		if _, err := c.MissingRights(t.Context(), []Attributes{{"get", schema.GroupVersionKind{Version: "v1", Kind: "X"}, ""}}); !errors.Is(err, ErrKindUnknown) {
			t.Errorf("unknown kind: %v", err)
		}
		allowed = func(verb, namespace string) bool { return verb == "get" || verb == "list" && namespace == "a" }
		resource, verbs, in, err := c.MissingVerbs(t.Context(), widget, []string{"a", "b"}, []string{"get", "list", "create"})
		if err != nil || resource.String() != "widgets.example.com" || !slices.Equal(verbs, []string{"list", "create"}) || !slices.Equal(in, []string{"b", "a"}) {
			t.Errorf("lacks %s %v in %v: %v", resource, verbs, in, err)
		}
		if _, verbs, in, err = c.MissingVerbs(t.Context(), widget, nil, []string{"list"}); err != nil || !slices.Equal(verbs, []string{"list"}) || len(in) != 0 {
			t.Errorf("lacks %v in %v: %v", verbs, in, err)
		}
		if _, verbs, _, err = c.MissingVerbs(t.Context(), widget, []string{"a"}, []string{"get", "list"}); err != nil || len(verbs) != 0 {
			t.Errorf("lacks %v: %v", verbs, err)
		}
		if _, verbs, in, err = c.MissingVerbs(t.Context(), widget, []string{"b"}, []string{"get", "list"}); err != nil || !slices.Equal(verbs, []string{"list"}) || !slices.Equal(in, []string{"b"}) {
			t.Errorf("lacks %v in %v: %v", verbs, in, err)
		}
	})
}
