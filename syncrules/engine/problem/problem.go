// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package problem

import (
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/consent"
	"github.com/roster-mesh/roster/syncrules/engine/bounds"
	"github.com/roster-mesh/roster/syncrules/engine/guard"
	"github.com/roster-mesh/roster/syncrules/engine/place"
	"github.com/roster-mesh/roster/syncrules/skew"
)

// Reasons of a copy that is not as it should be. A rule with such copies has them as reasons of its condition Ready.
const (
	ReasonConsentRequired      = "ConsentRequired"
	ReasonSourceObject         = "SourceObjectUnusable"
	ReasonConflict             = "Conflict"
	ReasonMissingPermission    = "MissingPermission"
	ReasonKindUnknown          = "KindUnknown"
	ReasonLocalUnreachable     = "LocalUnreachable"
	ReasonNamespaceMissing     = "NamespaceMissing"
	ReasonNamespaceLimit       = "NamespaceLimit"
	ReasonNamespaceTerminating = "NamespaceTerminating"
	ReasonImmutableField       = "ImmutableField"
	ReasonObjectTooLarge       = "ObjectTooLarge"
	ReasonAdmissionRefused     = "AdmissionRefused"
	ReasonInvalidObject        = "InvalidObject"
	ReasonQuotaExceeded        = "QuotaExceeded"
	ReasonSchemaMismatch       = "SchemaMismatch"
	ReasonWriteFailed          = "WriteFailed"
)

// Reasons of the condition Ready beside those of single copies.
const (
	ReasonSynced            = "Synced"
	ReasonObserving         = "Observing"
	ReasonNotTargeted       = "NotTargeted"
	ReasonTargetUnknown     = "TargetUnknown"
	ReasonNoSource          = "NoSource"
	ReasonStarting          = "Starting"
	ReasonProgressing       = "Progressing"
	ReasonSlowed            = "Slowed"
	ReasonInvalidRule       = "InvalidRule"
	ReasonNotUnderstood     = skew.Reason
	ReasonVersionConflict   = "VersionConflict"
	ReasonTooManyRules      = "TooManyRules"
	ReasonTooManyCopies     = "TooManyCopies"
	ReasonPaused            = "Paused"
	ReasonDeletionGuard     = guard.Reason
	ReasonSourceUnreachable = "SourceUnreachable"
	ReasonSourcePermission  = "SourceMissingPermission"
	ReasonSourceKindUnknown = "SourceKindUnknown"
	ReasonSourceTooLarge    = "SourceTooLarge"
	ReasonSourceRestored    = "SourceRestored"
)

var (
	// ErrImmutable is returned when the copy has a field that cannot be changed and is not as at the source.
	ErrImmutable = errors.New("a field that cannot be changed differs")
	// ErrNamespace is returned when a namespace that a copy needs could not be created.
	ErrNamespace = errors.New("create its namespace")
	// ErrNamespacesUnknown is returned while it is not known how many namespaces were created.
	ErrNamespacesUnknown = errors.New("how many namespaces were created is being looked at")
)

// NamespaceLimitError is returned when as many namespaces were created for a rule as may be.
type NamespaceLimitError struct{ Max int }

func (e NamespaceLimitError) Error() string {
	return fmt.Sprintf("%d were created for its rule here, the most that are", e.Max)
}

// Problem is why one copy could not be made what it should be.
type Problem struct {
	Reason string
	Text   string // with the key, for people; without anything of a Secret
	// Namespace says that the copy waits for its namespace.
	Namespace bool
}

// The longest back-offs: what ends by itself is tried often, what a person must fix rarely, and so is what an event or a
// review tells the end of.
const (
	backoffCapOutage = 5 * time.Second
	backoffCap       = 30 * time.Second
	backoffCapObject = 5 * time.Minute
)

// MaxBackoff is how long to wait at most before the copy is tried again.
func (p *Problem) MaxBackoff() time.Duration {
	switch p.Reason {
	case ReasonLocalUnreachable:
		return backoffCapOutage
	case ReasonImmutableField, ReasonObjectTooLarge, ReasonInvalidObject, ReasonTooManyCopies, ReasonNamespaceLimit,
		ReasonNamespaceMissing, ReasonNamespaceTerminating:
		return backoffCapObject
	}
	return backoffCap
}

// Final says that only an event can change it.
func (p *Problem) Final() bool {
	return p.Reason == ReasonConsentRequired || p.Reason == ReasonSourceObject
}

// Reader reads errors. Its zero value is ready for use.
type Reader struct {
	// Classify names the kind of an error as one of the errors of this package, or returns nil. API status errors are
	// understood without it.
	Classify func(error) error
}

// Problem says what is wrong with the write of the copy at k. Where it, or a source of it, is a Secret, what an API server
// says may repeat the content; then less is told.
func (r Reader) Problem(err error, k place.Key, secret bool) *Problem {
	p := &Problem{Reason: r.reason(err)}
	said := Describe(err, secret)
	switch p.Reason {
	case ReasonNamespaceMissing:
		p.Namespace, said = true, "namespace "+k.Namespace+" does not exist"
	case ReasonNamespaceLimit:
		p.Namespace, said = true, "namespace "+k.Namespace+" does not exist, and "+limitText(err)
	case ReasonNamespaceTerminating:
		p.Namespace, said = true, "namespace "+k.Namespace+" is being deleted"
	case ReasonKindUnknown:
		said = "the kind is not served here"
	case ReasonMissingPermission:
		switch {
		case errors.Is(err, ErrNamespace):
			p.Namespace, said = true, "namespace "+k.Namespace+" does not exist, and the agent may not create namespaces"
		case secret:
			said = "the agent may not write " + k.Kind + "s in namespace " + k.Namespace
		}
	case ReasonAdmissionRefused:
		if secret {
			said = admissionName(err) + " did not let it in"
		}
	case ReasonQuotaExceeded:
		if secret {
			said = "a quota of namespace " + k.Namespace + " is used up"
		}
	case ReasonObjectTooLarge:
		said = "it is larger than the API server here takes"
	}
	p.Text = k.String() + ": " + said
	return p
}

// reason sorts the errors of a write. API servers tell many of them apart by their text alone.
func (r Reader) reason(err error) string {
	class := r.Class(err)
	switch {
	case errors.Is(err, consent.ErrNeeded):
		return ReasonConsentRequired
	case errors.Is(err, syncrules.ErrSource):
		return ReasonSourceObject
	case errors.Is(err, ErrImmutable):
		return ReasonImmutableField
	case errors.Is(err, bounds.ErrTooMuch):
		return ReasonTooManyCopies
	case limitText(err) != "":
		return ReasonNamespaceLimit
	case apierrors.HasStatusCause(err, "NamespaceTerminating"):
		return ReasonNamespaceTerminating
	case IsNamespaceMissing(err):
		return ReasonNamespaceMissing
	case class == KindUnknown:
		return ReasonKindUnknown
	case tooLarge(err):
		return ReasonObjectTooLarge
	case admissionName(err) != "":
		return ReasonAdmissionRefused
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota"):
		return ReasonQuotaExceeded
	case class == Forbidden:
		return ReasonMissingPermission
	case class == Unreachable:
		return ReasonLocalUnreachable
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return ReasonInvalidObject
	}
	return ReasonWriteFailed
}

// limitText is why a namespace is not created that might be later, "" for other errors.
func limitText(err error) string {
	var limit NamespaceLimitError
	switch {
	case errors.As(err, &limit):
		return limit.Error()
	case errors.Is(err, ErrNamespacesUnknown):
		return ErrNamespacesUnknown.Error()
	}
	return ""
}

// IsNamespaceMissing says that a write failed since its namespace does not exist.
func IsNamespaceMissing(err error) bool {
	var status apierrors.APIStatus
	return apierrors.IsNotFound(err) && errors.As(err, &status) &&
		status.Status().Details != nil && status.Status().Details.Kind == "namespaces"
}
