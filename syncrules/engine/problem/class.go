// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package problem

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What Reader.Classify may say of an error.
var (
	// ErrUnreachable is returned when no answer came.
	ErrUnreachable = errors.New("unreachable")
	// ErrForbidden is returned when the credential is not accepted or lacks a right.
	ErrForbidden = errors.New("forbidden")
	// ErrKindUnknown is returned when the kind is not served.
	ErrKindUnknown = errors.New("kind not served")
	// ErrRestored is returned when a source went back in time and its owner has not confirmed that.
	ErrRestored = errors.New("restored from a backup")
)

// Class is what kind of error the answer of an API server is.
type Class uint8

const (
	Other Class = iota
	Unreachable
	Forbidden
	KindUnknown
	Restored
)

// Class asks Reader.Classify first, and then looks for itself.
func (r Reader) Class(err error) Class {
	if r.Classify != nil {
		if named := r.Classify(err); named != nil {
			err = named
		}
	}
	switch {
	case errors.Is(err, ErrRestored):
		return Restored
	case errors.Is(err, ErrKindUnknown), meta.IsNoMatchError(err), apierrors.IsNotFound(err):
		return KindUnknown
	case errors.Is(err, ErrForbidden), apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return Forbidden
	case errors.Is(err, ErrUnreachable), apierrors.ReasonForError(err) == metav1.StatusReasonUnknown,
		apierrors.IsServiceUnavailable(err), apierrors.IsServerTimeout(err), apierrors.IsTimeout(err):
		return Unreachable
	}
	return Other
}
