// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package aggregated

import (
	"context"
	"net/http"
	"slices"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapiserver "k8s.io/apiserver/pkg/server"

	view "github.com/roster-mesh/roster/kube/api/registry/v1alpha1"
)

// verbs are those that the registry serves.
var verbs = []string{"get", "list", "watch", "create", "update", "patch", "delete"} //nolint:gochecknoglobals // never changed

// passedOn is a caller whom the API server in front has authorized before it passed his request on. One whom he impersonates
// here is not.
type passedOn struct{ user.Info }

// tellPassedOn makes callers who come through the API server in front passedOn: those whose connection has its certificate.
func tellPassedOn(a *genericapiserver.AuthenticationInfo) {
	front := a.RequestHeaderConfig
	if front == nil {
		return
	}
	headers := group.NewAuthenticatedGroupAdder(newFrontAuthenticator(front))
	others := a.Authenticator
	a.Authenticator = authenticator.RequestFunc(func(r *http.Request) (*authenticator.Response, bool, error) {
		if of, ok, err := headers.AuthenticateRequest(r); ok && err == nil {
			of.User = passedOn{of.User}
			return of, true, nil
		}
		return others.AuthenticateRequest(r)
	})
}

// letThrough lets everybody who was passed on ask for Clusters, which shows him nothing: what he sees and changes, the registry
// asks for each request, so that an answer that cannot be had is told from a no. Whether he may ask at all, the API server in
// front has been asked. Everything else is asked about here: so is who comes to this server directly, or the callers that the
// chart names would be more than those; and whether somebody may be impersonated for such a request, which is a verb of its own.
func letThrough(others authorizer.Authorizer) authorizer.Authorizer {
	return authorizer.AuthorizerFunc(func(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		if who, ok := a.GetUser().(passedOn); ok && slices.Contains(who.GetGroups(), user.AllAuthenticated) &&
			a.IsResourceRequest() && a.GetAPIGroup() == view.GroupName && slices.Contains(verbs, a.GetVerb()) {
			return authorizer.DecisionAllow, "", nil
		}
		return others.Authorize(ctx, a)
	})
}
