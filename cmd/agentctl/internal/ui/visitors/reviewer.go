// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package visitors

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/clusters"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/rights"
)

// Reviewer asks the API server of one cluster.
type Reviewer struct {
	Client *clusters.Client
	Failed func(error) // is told why it cannot be asked, which visitors are not
}

// needed are the rights to what the page shows of a cluster, and follows.
func needed() []rights.Right {
	return append(rights.Of(clusters.ClusterResource(), "", "list", "watch"), rights.Of(clusters.RuleResource(), "", "list", "watch")...)
}

// user is who a token is of, as a TokenReview says, and a SubjectAccessReview asks.
type user struct {
	Username string              `json:"username"`
	UID      string              `json:"uid"`
	Groups   []string            `json:"groups"`
	Extra    map[string][]string `json:"extra"`
}

// Ask is whose token that is. It is a *RefusalError for one that the API server does not know, or of one who lacks a right.
func (r *Reviewer) Ask(ctx context.Context, token string) (string, error) {
	var is struct {
		Authenticated bool `json:"authenticated"`
		User          user `json:"user"`
	}
	// No audience is asked for, so that it is the API server's: with that token the visitor is answered why something is not there.
	err := r.review(ctx, schema.GroupVersionResource{Group: "authentication.k8s.io", Version: "v1", Resource: "tokenreviews"}, "TokenReview",
		map[string]any{"token": token}, &is)
	switch {
	case err != nil:
		return "", err
	case !is.Authenticated || is.User.Username == "":
		return "", refuse(http.StatusUnauthorized, "The API server does not know this token, or it has ended.")
	}
	var lacks []string
	for _, right := range needed() {
		allowed, err := r.allowed(ctx, is.User, right)
		if err != nil {
			return "", err
		}
		if !allowed {
			lacks = append(lacks, lacking(is.User.Username, right))
		}
	}
	if len(lacks) > 0 {
		return "", refuse(http.StatusForbidden, "%s", strings.Join(lacks, "; "))
	}
	return is.User.Username, nil
}

func (r *Reviewer) allowed(ctx context.Context, who user, right rights.Right) (bool, error) {
	spec, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&struct {
		User   string              `json:"user"`
		UID    string              `json:"uid"`
		Groups []string            `json:"groups"`
		Extra  map[string][]string `json:"extra"`
	}{who.Username, who.UID, who.Groups, who.Extra})
	if err != nil {
		return false, err
	}
	spec["resourceAttributes"] = map[string]any{"verb": right.Verb, "group": right.Group, "resource": right.Resource, "namespace": right.Namespace}
	var is struct {
		Allowed bool `json:"allowed"`
	}
	err = r.review(ctx, schema.GroupVersionResource{Group: "authorization.k8s.io", Version: "v1", Resource: "subjectaccessreviews"}, "SubjectAccessReview", spec, &is)
	return is.Allowed, err
}

// review puts a question, and reads the status of what comes back.
func (r *Reviewer) review(ctx context.Context, resource schema.GroupVersionResource, kind string, spec map[string]any, out any) error {
	question := &unstructured.Unstructured{Object: map[string]any{"apiVersion": resource.GroupVersion().String(), "kind": kind, "spec": spec}}
	answer, err := r.Client.Dynamic.Resource(resource).Create(ctx, question, metav1.CreateOptions{})
	if err == nil {
		status, _, _ := unstructured.NestedMap(answer.Object, "status")
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(status, out)
	}
	if err != nil {
		r.Failed(fmt.Errorf("the API server cannot be asked about a visitor (%s): %s", kind, clusters.Reason(err)))
		return errors.New("the API server cannot be asked who you are, and what you may read")
	}
	return nil
}

// lacking says it as API servers, and so kubectl, do.
func lacking(user string, r rights.Right) string {
	return fmt.Sprintf("%s.%s is forbidden: User %q cannot %s resource %q in API group %q at the cluster scope", r.Resource, r.Group, user, r.Verb, r.Resource, r.Group)
}
