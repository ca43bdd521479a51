// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	view "github.com/roster-mesh/roster/kube/api/registry/v1alpha1"
	"github.com/roster-mesh/roster/kube/api/v1alpha1"
)

// behind returns an error of the API server behind as one of the registry API: it names the group that the caller asked for.
// What that server did not answer at all is 503, and names it; so is what it would not let this server do, which is for the
// one who runs it and not for the caller. What it says of its own faults may name any Cluster, and stays in its log.
func (s *Server) behind(err error) error {
	if err == nil || errors.Is(err, errUnreadable) {
		return err
	}
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) {
		return apierrors.NewServiceUnavailable(fmt.Sprintf("the API server behind, %s, cannot be reached: %v", s.o.Behind, err))
	}
	out := status.Status()
	switch {
	case out.Code == http.StatusUnauthorized, out.Code == http.StatusForbidden && !byAdmission(out.Message):
		return apierrors.NewServiceUnavailable(fmt.Sprintf("the API server behind, %s, does not let the registry API do this: %s", s.o.Behind, out.Message))
	case out.Code >= http.StatusInternalServerError:
		return s.fault(out)
	case out.Code == http.StatusNotFound && (out.Details == nil || out.Details.Name == "" || apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)):
		return apierrors.NewServiceUnavailable(fmt.Sprintf("the API server behind, %s, does not serve clusters.%s: install the CRDs", s.o.Behind, v1alpha1.GroupName))
	}
	out.Message = strings.ReplaceAll(out.Message, v1alpha1.GroupName, view.GroupName)
	if out.Details != nil {
		details := *out.Details
		if details.Group == v1alpha1.GroupName {
			details.Group = view.GroupName
		}
		out.Details = &details
	}
	return &apierrors.StatusError{ErrStatus: out}
}

// fault is an error of the API server behind that is not about the request: when to try again, and nothing else of it but that
// a version is newer than what there is, as after a restore: clients then list anew.
func (s *Server) fault(from metav1.Status) error {
	out := metav1.Status{
		Status: metav1.StatusFailure, Code: from.Code, Reason: from.Reason,
		Message: fmt.Sprintf("the API server behind, %s, could not do this (%d %s): see its log", s.o.Behind, from.Code, from.Reason),
	}
	if from.Details != nil {
		out.Details = &metav1.StatusDetails{RetryAfterSeconds: from.Details.RetryAfterSeconds}
	}
	if tooLarge := metav1.CauseTypeResourceVersionTooLarge; apierrors.HasStatusCause(&apierrors.StatusError{ErrStatus: from}, tooLarge) {
		out.Message = "Too large resource version: it is newer than what there is" // older clients go by how this begins
		out.Details.Causes = []metav1.StatusCause{{Type: tooLarge, Message: out.Message}}
	}
	return &apierrors.StatusError{ErrStatus: out}
}

// watchEnded is the error that a watch of the API server behind ends with, as one for the caller: old versions are his to
// know, and the rest may name what he does not see.
func (s *Server) watchEnded(e watch.Event) *metav1.Status {
	from, ok := e.Object.(*metav1.Status)
	if !ok {
		from = &metav1.Status{Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError}
	}
	if from.Code == http.StatusGone || from.Reason == metav1.StatusReasonExpired {
		return apiStatus(apierrors.NewResourceExpired("the version is too old: list and watch again"))
	}
	return apiStatus(s.fault(*from))
}

func apiStatus(err error) *metav1.Status {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) {
		status = apierrors.NewInternalError(err)
	}
	out := status.Status()
	return &out
}

// byAdmission says whether a write was refused for what it writes. A policy or a webhook says so in its message; RBAC names
// the user.
func byAdmission(message string) bool {
	return strings.Contains(message, "ValidatingAdmissionPolicy") || strings.Contains(message, "admission webhook")
}

func notFound(name string) error { return apierrors.NewNotFound(view.Resource(resourceClusters), name) }

func forbidden(name, why string) error {
	return apierrors.NewForbidden(view.Resource(resourceClusters), name, errors.New(why))
}

func conflict(name, why string) error {
	return apierrors.NewConflict(view.Resource(resourceClusters), name, errors.New(why))
}

// expired is the 410 that ends a watch whose caller sees something else now: he lists and watches again.
func expired() *metav1.Status {
	return apiStatus(apierrors.NewResourceExpired("what you may see has changed: list and watch again"))
}

// unanswered is 503: what the caller may do is not known.
func unanswered(err error) error {
	return apierrors.NewServiceUnavailable(err.Error())
}
