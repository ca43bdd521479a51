// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package aggregated

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/filters/impersonation"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	view "github.com/roster-mesh/roster/kube/api/registry/v1alpha1"
	"github.com/roster-mesh/roster/kube/apiserver/registry"
)

// apiServer answers reviews as a function says, and counts them.
type apiServer struct {
	answer func(*authorizationv1.SubjectAccessReviewSpec) authorizationv1.SubjectAccessReviewStatus
	err    error
	asked  int
}

func (s *apiServer) Create(_ context.Context, review *authorizationv1.SubjectAccessReview, _ metav1.CreateOptions) (*authorizationv1.SubjectAccessReview, error) {
	s.asked++
	if s.err != nil {
		return nil, s.err
	}
	out := review.DeepCopy()
	out.Status = s.answer(&review.Spec)
	return out, nil
}

type clock struct{ now time.Time }

func (c *clock) Now() time.Time { return c.now }

func newReviews(s *apiServer) (*reviews, *clock) {
	c := &clock{now: time.Unix(1e9, 0)}
	return &reviews{client: s, now: c.Now, answers: cache.NewLRUExpireCacheWithClock(reviewsKept, c)}, c
}

func constant(status authorizationv1.SubjectAccessReviewStatus) *apiServer {
	return &apiServer{answer: func(*authorizationv1.SubjectAccessReviewSpec) authorizationv1.SubjectAccessReviewStatus {
		return status
	}}
}

func attributes(name string) authorizer.AttributesRecord {
	return authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "somebody"}, Verb: "get", Resource: "clusters", Name: name, ResourceRequest: true}
}

// A question without an answer is neither a yes nor a no, and is asked again.
func TestReviewsThatFail(t *testing.T) {
	t.Parallel()
	for name, server := range map[string]*apiServer{
		"unreachable":            {err: errors.New("connection refused")},
		"could not be evaluated": constant(authorizationv1.SubjectAccessReviewStatus{EvaluationError: "the webhook is down"}),
		"refused, as it is down": constant(authorizationv1.SubjectAccessReviewStatus{Denied: true, EvaluationError: "the webhook is down"}),
		"yes and no":             constant(authorizationv1.SubjectAccessReviewStatus{Allowed: true, Denied: true}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, _ := newReviews(server)
			for n := range 2 {
				if decision, _, err := r.Authorize(t.Context(), attributes("a")); decision == authorizer.DecisionAllow || err == nil {
					t.Errorf("%v, %v", decision, err)
				}
				if server.asked != n+1 {
					t.Errorf("asked %d times in %d tries", server.asked, n+1)
				}
			}
		})
	}
	// RBAC says yes though another authorizer could not be asked.
	r, _ := newReviews(constant(authorizationv1.SubjectAccessReviewStatus{Allowed: true, EvaluationError: "the webhook is down"}))
	if decision, _, err := r.Authorize(t.Context(), attributes("a")); decision != authorizer.DecisionAllow || err != nil {
		t.Errorf("%v, %v", decision, err)
	}
}

// An answer is used again for a while, and not once roles have changed.
func TestReviewsAreRemembered(t *testing.T) {
	t.Parallel()
	server := constant(authorizationv1.SubjectAccessReviewStatus{Allowed: true})
	r, c := newReviews(server)
	want := 0
	ask := func(name string, again bool) {
		t.Helper()
		if again {
			want++
		}
		if decision, _, err := r.Authorize(t.Context(), attributes(name)); decision != authorizer.DecisionAllow || err != nil {
			t.Errorf("%v, %v", decision, err)
		}
		if server.asked != want {
			t.Errorf("asked %d times, want %d", server.asked, want)
		}
	}
	ask("a", true)
	ask("a", false)
	ask("b", true)
	c.now = c.now.Add(reviewsLive - time.Second)
	ask("a", false)
	c.now = c.now.Add(2 * time.Second)
	ask("a", true)
	r.RolesChanged()
	ask("a", true)
	c.now = c.now.Add(rolesLag - time.Second)
	ask("a", false)
	c.now = c.now.Add(time.Second + time.Millisecond) // the API server may have answered before it knew
	ask("a", true)
	c.now = c.now.Add(rolesLag)
	ask("a", false)
}

// An answer that was on its way while roles changed is not used after that.
func TestReviewDuringAChange(t *testing.T) {
	t.Parallel()
	allowed := true
	server := &apiServer{}
	r, _ := newReviews(server)
	server.answer = func(*authorizationv1.SubjectAccessReviewSpec) authorizationv1.SubjectAccessReviewStatus {
		defer func() {
			if allowed {
				allowed = false
				r.RolesChanged()
			}
		}()
		return authorizationv1.SubjectAccessReviewStatus{Allowed: allowed}
	}
	if decision, _, err := r.Authorize(t.Context(), attributes("a")); decision != authorizer.DecisionAllow || err != nil {
		t.Fatal(decision, err)
	}
	if decision, _, err := r.Authorize(t.Context(), attributes("a")); decision == authorizer.DecisionAllow || err != nil {
		t.Error(decision, err)
	}
}

// Who asks what somebody asks already waits for the same answer, and gets it though that one has gone.
func TestReviewAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := &apiServer{answer: func(*authorizationv1.SubjectAccessReviewSpec) authorizationv1.SubjectAccessReviewStatus {
			time.Sleep(time.Second)
			return authorizationv1.SubjectAccessReviewStatus{Allowed: true}
		}}
		r, _ := newReviews(server)
		first, leave := context.WithCancel(t.Context())
		var wait sync.WaitGroup
		wait.Go(func() {
			if _, _, err := r.Authorize(first, attributes("a")); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
		synctest.Wait()
		for range 3 {
			wait.Go(func() {
				if decision, _, err := r.Authorize(t.Context(), attributes("a")); decision != authorizer.DecisionAllow || err != nil {
					t.Error(decision, err)
				}
			})
		}
		synctest.Wait()
		leave()
		wait.Wait()
		if server.asked != 1 {
			t.Errorf("asked %d times", server.asked)
		}
	})
}

// What the API server is asked is who asks, and about what.
func TestReviewOf(t *testing.T) {
	t.Parallel()
	who := &user.DefaultInfo{Name: "somebody", UID: "1", Groups: []string{"g"}, Extra: map[string][]string{"scopes": {"a", "b"}}}
	got := reviewOf(authorizer.AttributesRecord{
		User: who, Verb: "get", APIGroup: "x", APIVersion: "v1", Resource: "clusters", Subresource: "status", Name: "a", Namespace: "n", ResourceRequest: true,
	})
	if got.User != "somebody" || got.UID != "1" || len(got.Groups) != 1 || len(got.Extra["scopes"]) != 2 || got.NonResourceAttributes != nil ||
		*got.ResourceAttributes != (authorizationv1.ResourceAttributes{Namespace: "n", Verb: "get", Group: "x", Version: "v1", Resource: "clusters", Subresource: "status", Name: "a"}) {
		t.Errorf("%+v", got)
	}
	if got := reviewOf(authorizer.AttributesRecord{User: who, Verb: "get", Path: "/metrics"}); got.ResourceAttributes != nil || *got.NonResourceAttributes != (authorizationv1.NonResourceAttributes{Verb: "get", Path: "/metrics"}) {
		t.Errorf("%+v", got)
	}
}

// Who may impersonate somebody for other requests than those for Clusters, may not for these, though everybody may ask for them.
func TestImpersonationIsAskedAbout(t *testing.T) {
	t.Parallel()
	server := &apiServer{answer: func(spec *authorizationv1.SubjectAccessReviewSpec) authorizationv1.SubjectAccessReviewStatus {
		return authorizationv1.SubjectAccessReviewStatus{Allowed: spec.ResourceAttributes.Verb == "impersonate:user-info"}
	}}
	r, _ := newReviews(server)
	all, err := r.authorizer()
	if err != nil {
		t.Fatal(err)
	}
	direct := &user.DefaultInfo{Name: "helpdesk", Groups: []string{user.AllAuthenticated}}
	known := passedOn{direct}
	var was user.Info
	next := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { was, _ = genericapirequest.UserFrom(r.Context()) })
	handler := impersonation.WithConstrainedImpersonation(next, letThrough(all), serializer.NewCodecFactory(registry.NewScheme()))
	for range 2 { // the second time an answer may be remembered
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/apis/clusterregistry.k8s.io/v1alpha1/clusters/a", nil)
		request.Header.Set("Impersonate-User", "boss")
		ctx := genericapirequest.WithUser(request.Context(), known)
		ctx = genericapirequest.WithRequestInfo(ctx, &genericapirequest.RequestInfo{
			IsResourceRequest: true, Verb: "get", APIGroup: view.GroupName, APIVersion: "v1alpha1", Resource: "clusters", Name: "a", Path: request.URL.Path,
		})
		response := httptest.NewRecorder()
		handler.ServeHTTP(response, request.WithContext(ctx))
		if response.Code != http.StatusForbidden || was != nil {
			t.Errorf("%d, as %v", response.Code, was)
		}
	}
	for _, tt := range []struct {
		who  user.Info
		verb string
		want authorizer.Decision
	}{
		{known, "list", authorizer.DecisionAllow},
		{known, "deletecollection", authorizer.DecisionNoOpinion},
		{direct, "list", authorizer.DecisionNoOpinion},
		{passedOn{&user.DefaultInfo{Name: user.Anonymous, Groups: []string{user.AllUnauthenticated}}}, "list", authorizer.DecisionNoOpinion},
	} {
		got, _, err := letThrough(all).Authorize(t.Context(), authorizer.AttributesRecord{User: tt.who, Verb: tt.verb, APIGroup: view.GroupName, Resource: "clusters", ResourceRequest: true})
		if got != tt.want || err != nil {
			t.Errorf("%s %s: %v, %v", tt.who.GetName(), tt.verb, got, err)
		}
	}
}
