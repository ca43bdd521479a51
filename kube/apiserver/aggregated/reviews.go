// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package aggregated

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/authorization/path"
	"k8s.io/apiserver/pkg/authorization/union"
)

const (
	// reviewsLive is for how long an answer of the API server about a caller is used again.
	reviewsLive = 10 * time.Second
	// rolesLag is how much later than this server an API server may know of a change of roles. What it answers in that time is
	// used again no longer than that, and rolesSettle after the change nothing that it answered before is.
	rolesLag    = 3 * time.Second
	rolesSettle = 2 * rolesLag
	// reviewWithin bounds how long an answer may take.
	reviewWithin = 5 * time.Second
	// reviewsKept bounds the answers that are remembered, and reviewLength the length of a question whose answer is.
	reviewsKept  = 8192
	reviewLength = 8 << 10
)

// reviews asks the API server what callers may do, by SubjectAccessReview. Upstream's delegating authorizer takes a review
// that could not be evaluated for a no, goes on with old answers when roles have changed, and asks at most 200 times a second.
type reviews struct {
	client interface { // is met by client-go's SubjectAccessReviewInterface
		Create(context.Context, *authorizationv1.SubjectAccessReview, metav1.CreateOptions) (*authorizationv1.SubjectAccessReview, error)
	}
	now func() time.Time

	mu      sync.Mutex
	changes int       // of roles
	changed time.Time // when they have last
	answers *cache.LRUExpireCache

	asking singleflight.Group
}

// question is what an answer is remembered by: one that was asked before roles changed is not found after it.
type question struct {
	changes int
	spec    string
}

type answer struct {
	decision authorizer.Decision
	reason   string
}

// RolesChanged tells that a role or a binding has changed.
func (r *reviews) RolesChanged() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changes++
	r.changed = r.now()
}

// Authorize implements authorizer.UnconditionalAuthorizer. Selectors are not asked about: what may be done with everything may
// be done with what they select.
func (r *reviews) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	review := &authorizationv1.SubjectAccessReview{Spec: reviewOf(a)}
	spec, err := json.Marshal(review.Spec)
	if err != nil {
		return authorizer.DecisionNoOpinion, "", err
	}
	r.mu.Lock()
	key, lives := question{changes: r.changes, spec: string(spec)}, reviewsLive
	if r.now().Sub(r.changed) < rolesLag {
		lives = rolesLag
	}
	r.mu.Unlock()
	if known, ok := r.answers.Get(key); ok {
		a, _ := known.(answer)
		return a.decision, a.reason, nil
	}
	asked := r.asking.DoChan(strconv.Itoa(key.changes)+key.spec, func() (any, error) { // which goes on for the others who wait for it
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reviewWithin)
		defer cancel()
		got, err := r.ask(ctx, review)
		if err == nil && len(spec) <= reviewLength {
			r.answers.Add(key, got, lives)
		}
		return got, err
	})
	select {
	case <-ctx.Done():
		return authorizer.DecisionNoOpinion, "", fmt.Errorf("ask the API server: %w", ctx.Err())
	case result := <-asked:
		got, _ := result.Val.(answer)
		return got.decision, got.reason, result.Err
	}
}

// ask returns what the API server answers. The zero value of a decision is Deny, so an error has one of its own.
func (r *reviews) ask(ctx context.Context, review *authorizationv1.SubjectAccessReview) (answer, error) {
	got := answer{decision: authorizer.DecisionNoOpinion}
	review, err := r.client.Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return got, fmt.Errorf("ask the API server: %w", err)
	}
	got.reason = review.Status.Reason
	switch is := review.Status; {
	case is.Allowed && is.Denied:
		got.decision = authorizer.DecisionDeny
		return got, errors.New("the API server answers yes and no")
	case is.Allowed:
		got.decision = authorizer.DecisionAllow
	case is.EvaluationError != "":
		return got, fmt.Errorf("the API server could not find out: %s", is.EvaluationError)
	case is.Denied:
		got.decision = authorizer.DecisionDeny
	}
	return got, nil
}

func reviewOf(a authorizer.Attributes) authorizationv1.SubjectAccessReviewSpec {
	var spec authorizationv1.SubjectAccessReviewSpec
	if who := a.GetUser(); who != nil {
		spec.User, spec.UID, spec.Groups = who.GetName(), who.GetUID(), who.GetGroups()
		for key, values := range who.GetExtra() {
			if spec.Extra == nil {
				spec.Extra = map[string]authorizationv1.ExtraValue{}
			}
			spec.Extra[key] = values
		}
	}
	if !a.IsResourceRequest() {
		spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Path: a.GetPath(), Verb: a.GetVerb()}
		return spec
	}
	spec.ResourceAttributes = &authorizationv1.ResourceAttributes{
		Namespace: a.GetNamespace(), Verb: a.GetVerb(), Group: a.GetAPIGroup(), Version: a.GetAPIVersion(),
		Resource: a.GetResource(), Subresource: a.GetSubresource(), Name: a.GetName(),
	}
	return spec
}

// authorizer returns what everything is asked: the administrators' group and probes need no answer, as with any API server.
func (r *reviews) authorizer() (authorizer.Authorizer, error) {
	probes, err := path.NewAuthorizer([]string{"/healthz", "/readyz", "/livez"})
	if err != nil {
		return nil, err
	}
	return union.New(
		union.NamedAuthorizer{AuthorizerName: "masters", Authorizer: authorizerfactory.NewPrivilegedGroups(user.SystemPrivilegedGroup)},
		union.NamedAuthorizer{AuthorizerName: "probes", Authorizer: probes},
		union.NamedAuthorizer{AuthorizerName: "reviews", Authorizer: authorizer.AuthorizerFunc(r.Authorize)},
	)
}
