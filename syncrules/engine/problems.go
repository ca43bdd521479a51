// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"strings"
	"time"
	"unicode"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/syncrules"
)

// Reasons of the condition Ready.
const (
	ReasonSynced            = "Synced"
	ReasonNotTargeted       = "NotTargeted"
	ReasonNoSource          = "NoSource"
	ReasonStarting          = "Starting"
	ReasonProgressing       = "Progressing"
	ReasonInvalidRule       = "InvalidRule"
	ReasonUnsupportedField  = "UnsupportedField"
	ReasonConsentRequired   = "ConsentRequired"
	ReasonVersionConflict   = "VersionConflict"
	ReasonPaused            = "Paused"
	ReasonDeletionGuard     = "DeletionGuard"
	ReasonMissingPermission = "MissingPermission"
	ReasonKindUnknown       = "KindUnknown"
	ReasonSourceUnreachable = "SourceUnreachable"
	ReasonSourcePermission  = "SourceMissingPermission"
	ReasonSourceKindUnknown = "SourceKindUnknown"
	ReasonSourceTooLarge    = "SourceTooLarge"
	ReasonLocalUnreachable  = "LocalUnreachable"
	ReasonNamespaceMissing  = "NamespaceMissing"
	ReasonConflict          = "Conflict"
	ReasonWriteFailed       = "WriteFailed"
	ReasonSourceObject      = "SourceObjectUnusable"
)

// problem is why one copy could not be made what it should be.
type problem struct {
	reason string
	text   string // with the key, for people; without anything of a Secret
}

const (
	backoffFirst = 100 * time.Millisecond
	// caps of the back-off: what ends by itself is tried often, what a person must mend rarely.
	backoffCapOutage = 5 * time.Second
	backoffCap       = 30 * time.Second
	maxText          = 512
)

func (p *problem) backoffCap() time.Duration {
	if p.reason == ReasonLocalUnreachable || p.reason == ReasonNamespaceMissing {
		return backoffCapOutage
	}
	return backoffCap
}

// problemOf says what is wrong with the write of a copy.
func (e *Engine) problemOf(err error, k Key) problem {
	p := problem{reason: ReasonWriteFailed, text: k.String() + ": " + describe(err, k.Kind == "Secret" && k.Group == "")}
	class := e.classify(err)
	switch {
	case errors.Is(err, syncrules.ErrConsent):
		p.reason = ReasonConsentRequired
	case errors.Is(err, syncrules.ErrSource):
		p.reason = ReasonSourceObject
	case isNamespaceMissing(err):
		p.reason, p.text = ReasonNamespaceMissing, k.String()+": namespace "+k.Namespace+" does not exist"
	case class == classKindUnknown:
		p.reason, p.text = ReasonKindUnknown, k.String()+": the kind is not served here"
	case class == classForbidden:
		p.reason = ReasonMissingPermission
	case class == classUnreachable:
		p.reason = ReasonLocalUnreachable
	}
	return p
}

func isNamespaceMissing(err error) bool {
	if apierrors.HasStatusCause(err, "NamespaceTerminating") {
		return true
	}
	var status apierrors.APIStatus
	return apierrors.IsNotFound(err) && errors.As(err, &status) &&
		status.Status().Details != nil && status.Status().Details.Kind == "namespaces"
}

// class is what kind of error the answer of an API server is.
type class uint8

const (
	classOther class = iota
	classUnreachable
	classForbidden
	classKindUnknown
)

// classify asks Options.Classify first, and then looks for itself.
func (e *Engine) classify(err error) class {
	if named := e.o.Classify(err); named != nil {
		err = named
	}
	switch {
	case errors.Is(err, ErrKindUnknown), meta.IsNoMatchError(err), apierrors.IsNotFound(err):
		return classKindUnknown
	case errors.Is(err, ErrForbidden), apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return classForbidden
	case errors.Is(err, ErrUnreachable), apierrors.ReasonForError(err) == metav1.StatusReasonUnknown,
		apierrors.IsServiceUnavailable(err), apierrors.IsServerTimeout(err), apierrors.IsTimeout(err):
		return classUnreachable
	}
	return classOther
}

// describe is an error as one bounded line. What an API server says about a Secret may repeat its content, so
// only the reason and the names of fields are told.
func describe(err error, secret bool) string {
	if !secret || errors.Is(err, syncrules.ErrConsent) || errors.Is(err, syncrules.ErrSource) {
		return oneLine(err.Error())
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		for _, class := range []error{ErrKindUnknown, ErrForbidden, ErrUnreachable} {
			if errors.Is(err, class) {
				return class.Error()
			}
		}
		return "the request failed"
	}
	parts := []string{string(status.Status().Reason)}
	if details := status.Status().Details; details != nil {
		for _, cause := range details.Causes {
			parts = append(parts, cause.Field+" ("+string(cause.Type)+")")
		}
	}
	return oneLine(strings.Join(parts, " "))
}

// oneLine makes text of others fit for a condition.
func oneLine(s string) string {
	cut := len(s) > maxText
	if cut {
		s = s[:maxText]
	}
	s = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(s, "?"), func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r)
	}), " ")
	if cut {
		s += "…"
	}
	return s
}
