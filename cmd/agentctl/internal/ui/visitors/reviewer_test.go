// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package visitors

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
)

// reviewer asks a server that has these answers, by the resource that is posted to, and keeps what it is asked.
func reviewer(t *testing.T, answers map[string]func(spec map[string]any) string) (*Reviewer, map[string][]map[string]any) {
	t.Helper()
	asked := map[string][]map[string]any{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var question struct{ Spec map[string]any }
		if err := json.NewDecoder(r.Body).Decode(&question); err != nil {
			t.Error(err)
		}
		resource := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
		asked[resource] = append(asked[resource], question.Spec)
		status := answers[resource](question.Spec)
		w.Header().Set("Content-Type", "application/json")
		if status == "" {
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"the page may not ask"}`)
			return
		}
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"apiVersion":"x/v1","kind":"Review","metadata":{},"status":`+status+`}`)
	}))
	t.Cleanup(s.Close)
	c, err := clusters.New("east", &rest.Config{Host: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	return &Reviewer{Client: c, Failed: func(error) {}}, asked
}

const jane = `{"authenticated":true,"user":{"username":"jane","uid":"7","groups":["dev","system:authenticated"],"extra":{"scopes":["a","b"]}}}`

func always(status string) func(map[string]any) string {
	return func(map[string]any) string { return status }
}

func TestReviewer(t *testing.T) {
	t.Parallel()
	r, asked := reviewer(t, map[string]func(map[string]any) string{"tokenreviews": always(jane), "subjectaccessreviews": always(`{"allowed":true}`)})
	if user, err := r.Ask(t.Context(), "s3cret"); user != "jane" || err != nil {
		t.Fatalf("%q, %v", user, err)
	}
	if diff := cmp.Diff([]map[string]any{{"token": "s3cret"}}, asked["tokenreviews"]); diff != "" {
		t.Error(diff)
	}
	var rights []string
	for _, spec := range asked["subjectaccessreviews"] {
		a, _ := spec["resourceAttributes"].(map[string]any)
		rights = append(rights, strings.Join([]string{a["verb"].(string), a["resource"].(string), a["group"].(string), a["namespace"].(string)}, " "))
		delete(spec, "resourceAttributes")
		who := map[string]any{"user": "jane", "uid": "7", "groups": []any{"dev", "system:authenticated"}, "extra": map[string]any{"scopes": []any{"a", "b"}}}
		if diff := cmp.Diff(who, spec); diff != "" {
			t.Error(diff)
		}
	}
	of := " clusterregistry.k8s.cisco.com "
	if diff := cmp.Diff([]string{"list clusters" + of, "watch clusters" + of, "list resourcesyncrules" + of, "watch resourcesyncrules" + of}, rights); diff != "" {
		t.Error(diff)
	}
}

// Only a clear no is one, and nothing but a clear yes is a yes. No answer tells the token.
func TestReviewerRefuses(t *testing.T) {
	t.Parallel()
	listsNoRules := func(spec map[string]any) string {
		a, _ := spec["resourceAttributes"].(map[string]any)
		if a["resource"] == "resourcesyncrules" && a["verb"] == "list" {
			return `{"allowed":false,"reason":"s3cret"}`
		}
		return `{"allowed":true}`
	}
	for name, test := range map[string]struct {
		who  string
		may  func(map[string]any) string
		code int // 0 for unknown
		text string
	}{
		"not known":    {`{"authenticated":false,"error":"s3cret has ended"}`, always(`{"allowed":true}`), 401, "does not know this token"},
		"nobody":       {`{"authenticated":true}`, always(`{"allowed":true}`), 401, "does not know this token"},
		"no status":    {`null`, always(`{"allowed":true}`), 401, "does not know this token"},
		"lacks one":    {jane, listsNoRules, 403, `resourcesyncrules.clusterregistry.k8s.cisco.com is forbidden: User "jane" cannot list resource "resourcesyncrules" in API group "clusterregistry.k8s.cisco.com" at the cluster scope`},
		"lacks all":    {jane, always(`{}`), 403, `cannot watch resource "clusters"`},
		"may not ask":  {"", always(""), 0, "(TokenReview): the page may not ask"},
		"nor rights":   {jane, always(""), 0, "(SubjectAccessReview): the page may not ask"},
		"what is this": {`{"authenticated":"s3cret"}`, always(""), 0, "(TokenReview): "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, _ := reviewer(t, map[string]func(map[string]any) string{"tokenreviews": always(test.who), "subjectaccessreviews": test.may})
			var told string
			r.Failed = func(err error) { told = err.Error() }
			user, err := r.Ask(t.Context(), "s3cret")
			if user != "" || err == nil || strings.Contains(told+err.Error(), "s3cret") {
				t.Fatalf("%q, %v", user, err)
			}
			if test.code != 0 {
				told = err.Error()
			} else if strings.Contains(err.Error(), test.text) {
				t.Errorf("a visitor is told %q", err)
			}
			if !strings.Contains(told, test.text) {
				t.Errorf("told %q", told)
			}
			no, refused := errors.AsType[*RefusalError](err)
			if refused != (test.code != 0) || refused && no.Code != test.code {
				t.Errorf("%#v", err)
			}
		})
	}
}
