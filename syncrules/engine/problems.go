// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"slices"
	"strings"
	"time"
	"unicode"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

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
	ReasonSourceRestored    = "SourceRestored"
	ReasonLocalUnreachable  = "LocalUnreachable"
	ReasonNamespaceMissing  = "NamespaceMissing"
	ReasonNamespaceLimit    = "NamespaceLimit"
	ReasonConflict          = "Conflict"
	ReasonWriteFailed       = "WriteFailed"
	// ReasonNamespaceTerminating and those below are about single objects, too.
	ReasonNamespaceTerminating = "NamespaceTerminating"
	ReasonImmutableField       = "ImmutableField"
	ReasonObjectTooLarge       = "ObjectTooLarge"
	ReasonAdmissionRefused     = "AdmissionRefused"
	ReasonInvalidObject        = "InvalidObject"
	ReasonQuotaExceeded        = "QuotaExceeded"
	ReasonSchemaMismatch       = "SchemaMismatch"
	ReasonSlowed               = "Slowed"
	ReasonSourceObject         = "SourceObjectUnusable"
)

// problem is why one copy could not be made what it should be.
type problem struct {
	reason string
	text   string // with the key, for people; without anything of a Secret
	// namespace says that the copy waits for its namespace.
	namespace bool
}

const (
	backoffFirst = 100 * time.Millisecond
	// caps of the back-off: what ends by itself is tried often, what a person must mend rarely, and so is what an event
	// or a review tells the end of.
	backoffCapOutage = 5 * time.Second
	backoffCap       = 30 * time.Second
	backoffCapObject = 5 * time.Minute
	maxText          = 512
	maxMessage       = 4096 // of a condition
)

func (p *problem) backoffCap() time.Duration {
	switch p.reason {
	case ReasonLocalUnreachable:
		return backoffCapOutage
	case ReasonImmutableField, ReasonObjectTooLarge, ReasonInvalidObject, ReasonNamespaceLimit,
		ReasonNamespaceMissing, ReasonNamespaceTerminating:
		return backoffCapObject
	}
	return backoffCap
}

// final says that only an event can change it.
func (p *problem) final() bool {
	return p.reason == ReasonConsentRequired || p.reason == ReasonSourceObject
}

// problemOf says what is wrong with the write of a copy; secret is job.secret.
func (e *Engine) problemOf(err error, k Key, secret bool) problem {
	p := problem{reason: e.reasonOf(err)}
	said := describe(err, secret)
	switch p.reason {
	case ReasonNamespaceMissing:
		p.namespace, said = true, "namespace "+k.Namespace+" does not exist"
	case ReasonNamespaceLimit:
		p.namespace, said = true, "namespace "+k.Namespace+" does not exist, and "+limitText(err)
	case ReasonNamespaceTerminating:
		p.namespace, said = true, "namespace "+k.Namespace+" is being deleted"
	case ReasonKindUnknown:
		said = "the kind is not served here"
	case ReasonMissingPermission:
		switch {
		case errors.Is(err, errNamespace):
			p.namespace, said = true, "namespace "+k.Namespace+" does not exist, and the agent may not create namespaces"
		case secret:
			said = "the agent may not write " + k.Kind + "s in namespace " + k.Namespace
		}
	case ReasonAdmissionRefused:
		if secret {
			said = refuser(err) + " did not let it in"
		}
	case ReasonQuotaExceeded:
		if secret {
			said = "a quota of namespace " + k.Namespace + " is used up"
		}
	case ReasonObjectTooLarge:
		said = "it is larger than the API server here takes"
	}
	p.text = k.String() + ": " + said
	return p
}

// reasonOf sorts the errors of a write. API servers tell many of them apart by their text alone.
func (e *Engine) reasonOf(err error) string {
	class := e.classify(err)
	switch {
	case errors.Is(err, syncrules.ErrConsent):
		return ReasonConsentRequired
	case errors.Is(err, syncrules.ErrSource):
		return ReasonSourceObject
	case errors.Is(err, errImmutable):
		return ReasonImmutableField
	case errors.Is(err, errNamespaceLimit), errors.Is(err, errNamespacesUnknown):
		return ReasonNamespaceLimit
	case apierrors.HasStatusCause(err, "NamespaceTerminating"):
		return ReasonNamespaceTerminating
	case isNamespaceMissing(err):
		return ReasonNamespaceMissing
	case class == classKindUnknown:
		return ReasonKindUnknown
	case tooLarge(err):
		return ReasonObjectTooLarge
	case refuser(err) != "":
		return ReasonAdmissionRefused
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota"):
		return ReasonQuotaExceeded
	case class == classForbidden:
		return ReasonMissingPermission
	case class == classUnreachable:
		return ReasonLocalUnreachable
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return ReasonInvalidObject
	}
	return ReasonWriteFailed
}

func isNamespaceMissing(err error) bool {
	var status apierrors.APIStatus
	return apierrors.IsNotFound(err) && errors.As(err, &status) &&
		status.Status().Details != nil && status.Status().Details.Kind == "namespaces"
}

// tooLarge covers the limits of API servers on requests, of etcd on values, and of single kinds on their data.
func tooLarge(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	s := status.Status()
	if apierrors.IsRequestEntityTooLargeError(err) ||
		strings.Contains(s.Message, "request is too large") || strings.Contains(s.Message, "message larger than max") {
		return true
	}
	if s.Details == nil || !apierrors.IsInvalid(err) {
		return false
	}
	return slices.ContainsFunc(s.Details.Causes, func(c metav1.StatusCause) bool {
		return c.Type == metav1.CauseTypeTooLong && (c.Field == "" || c.Field == "data")
	})
}

// refuser is who, of what a cluster's own people have set up, did not let a copy in; "" if none did.
func refuser(err error) string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return ""
	}
	message := strings.TrimPrefix(status.Status().Message, "Internal error occurred: ")
	if _, rest, ok := strings.Cut(message, " is forbidden: "); ok {
		message = rest
	}
	if strings.HasPrefix(message, "violates PodSecurity") {
		return "PodSecurity"
	}
	for before, after := range map[string]string{
		`admission webhook "`: `" denied`, `failed calling webhook "`: `"`, `ValidatingAdmissionPolicy '`: `' with binding`,
	} {
		rest, begins := strings.CutPrefix(message, before)
		name, _, ends := strings.Cut(rest, after)
		if begins && ends && len(name) <= validation.DNS1123SubdomainMaxLength {
			return strings.TrimPrefix(before, "failed calling ") + name + before[len(before)-1:]
		}
	}
	return ""
}

// immutability is what an error says of fields that cannot be changed.
type immutability uint8

const (
	notAtAll immutability = iota
	partly                // and of something else
	wholly
)

// immutable looks for what API servers say of an update that would change what cannot be changed.
func immutable(err error) immutability {
	var status apierrors.APIStatus
	if err == nil || !apierrors.IsInvalid(err) || !errors.As(err, &status) {
		return notAtAll
	}
	s := status.Status()
	if s.Details == nil || len(s.Details.Causes) == 0 {
		return notAtAll
	}
	n := 0
	for _, c := range s.Details.Causes {
		for _, said := range []string{
			"immutable", "may not change once set", "may not change fields", "can not be unset", "cannot be changed",
			"updates to statefulset spec for fields other than", "updates to the spec are forbidden",
		} {
			if strings.Contains(c.Message, said) {
				n++
				break
			}
		}
	}
	switch n {
	case 0:
		return notAtAll
	case len(s.Details.Causes):
		return wholly
	}
	return partly
}

// class is what kind of error the answer of an API server is.
type class uint8

const (
	classOther class = iota
	classUnreachable
	classForbidden
	classKindUnknown
	classRestored
)

// classify asks Options.Classify first, and then looks for itself.
func (e *Engine) classify(err error) class {
	if named := e.o.Classify(err); named != nil {
		err = named
	}
	switch {
	case errors.Is(err, ErrRestored):
		return classRestored
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
func oneLine(s string) string { return bounded(s, maxText) }

func bounded(s string, limit int) string {
	cut := len(s) > limit
	if cut {
		s = s[:limit]
	}
	s = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(s, "?"), func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r)
	}), " ")
	if cut {
		s += "…"
	}
	return s
}
