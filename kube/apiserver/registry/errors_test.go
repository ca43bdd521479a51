// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/registry/rest"

	view "github.com/roster-mesh/roster/kube/api/registry/v1alpha1"
)

// requests are one of each verb.
func requests(ctx context.Context, s *store) map[string]error {
	c := &view.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "alpha"}}
	out := map[string]error{}
	_, out["get"] = s.Get(ctx, "alpha", &metav1.GetOptions{})
	_, out["list"] = s.List(ctx, nil)
	_, out["watch"] = s.Watch(ctx, &internalversion.ListOptions{})
	_, out["create"] = s.Create(ctx, c.DeepCopy(), nil, &metav1.CreateOptions{})
	_, _, out["update"] = s.Update(ctx, "alpha", rest.DefaultUpdatedObjectInfo(c), nil, nil, false, &metav1.UpdateOptions{})
	_, _, out["delete"] = s.Delete(ctx, "alpha", nil, &metav1.DeleteOptions{})
	return out
}

// Whatever the API server behind does not do, for reasons that are not the caller's, is 503, and named.
func TestServerBehindFails(t *testing.T) {
	t.Parallel()
	status := func(code int, reason string) func(http.ResponseWriter, *http.Request) {
		return text(code, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"User \"roster\" cannot","reason":"`+reason+`","code":`+strconv.Itoa(code)+`}`)
	}
	for name, test := range map[string]struct {
		answer func(http.ResponseWriter, *http.Request)
		want   string
	}{
		"no answer":      {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "the API server behind, behind.example, cannot be reached"},
		"not let in":     {status(http.StatusUnauthorized, "Unauthorized"), "does not let the registry API do this"},
		"not let to ask": {status(http.StatusForbidden, "Forbidden"), "does not let the registry API do this"},
	} {
		s, ctx := serve(t, &apiServer{answer: test.answer}, roles{names: []string{"*"}})
		for verb, err := range requests(ctx, s) {
			if !apierrors.IsServiceUnavailable(err) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s, %s: %v", name, verb, err)
			}
		}
	}
}

// A list that cannot go on is 410 with the token of that server, by which a client may go on from another version.
func TestExpiredContinue(t *testing.T) {
	t.Parallel()
	s, ctx := serve(t, &apiServer{answer: text(http.StatusGone, `{"kind":"Status","apiVersion":"v1","metadata":{"continue":"inconsistent"},"status":"Failure",
		"message":"The provided continue parameter is too old","reason":"Expired","code":410}`)}, roles{names: []string{"*"}})
	_, err := s.List(ctx, &internalversion.ListOptions{Limit: 1, Continue: "old"})
	expired := apierrors.APIStatus(nil)
	if !apierrors.IsResourceExpired(err) || !errors.As(err, &expired) || expired.Status().Continue != "inconsistent" {
		t.Errorf("%+v", err)
	}
}
