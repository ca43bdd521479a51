// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package problem

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/consent"
	"github.com/roster-mesh/roster/syncrules/engine/place"
)

func status(code int32, reason metav1.StatusReason, message string, causes ...metav1.StatusCause) *apierrors.StatusError {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Code: code, Reason: reason, Message: message, Details: &metav1.StatusDetails{Kind: "configmaps", Causes: causes},
	}}
}

func at(kind string) place.Key {
	return place.Key{GroupKind: schema.GroupKind{Kind: kind}, Namespace: "default", Name: "s"}
}

func noNamespace() error {
	err := status(404, metav1.StatusReasonNotFound, "namespaces \"default\" not found")
	err.ErrStatus.Details.Kind = "namespaces"
	return err
}

func TestReasonOfAnError(t *testing.T) {
	const forbidden, invalid = metav1.StatusReasonForbidden, metav1.StatusReasonInvalid
	for _, c := range []struct {
		err     error
		reason  string
		text    string // a part of it
		waits   bool   // for its namespace
		isFinal bool
	}{
		{err: fmt.Errorf("%w: no", consent.ErrNeeded), reason: ReasonConsentRequired, text: "no", isFinal: true},
		{err: fmt.Errorf("%w: no", syncrules.ErrSource), reason: ReasonSourceObject, text: "no", isFinal: true},
		{err: ErrImmutable, reason: ReasonImmutableField, text: "cannot be changed"},
		{err: fmt.Errorf("%w x: %w", ErrNamespace, NamespaceLimitError{Max: 250}), reason: ReasonNamespaceLimit, text: "namespace default does not exist, and 250 were created", waits: true},
		{err: fmt.Errorf("%w x: %w", ErrNamespace, ErrNamespacesUnknown), reason: ReasonNamespaceLimit, text: "being looked at", waits: true},
		{err: status(403, forbidden, "x", metav1.StatusCause{Type: "NamespaceTerminating"}), reason: ReasonNamespaceTerminating, text: "is being deleted", waits: true},
		{err: noNamespace(), reason: ReasonNamespaceMissing, text: "namespace default does not exist", waits: true},
		{err: status(404, metav1.StatusReasonNotFound, "x"), reason: ReasonKindUnknown, text: "not served here"},
		{err: status(413, metav1.StatusReasonRequestEntityTooLarge, "x"), reason: ReasonObjectTooLarge, text: "larger than"},
		{err: status(500, metav1.StatusReasonInternalError, "etcdserver: request is too large"), reason: ReasonObjectTooLarge, text: "larger than"},
		{err: status(422, invalid, "x", metav1.StatusCause{Type: metav1.CauseTypeTooLong, Field: "data"}), reason: ReasonObjectTooLarge, text: "larger than"},
		{err: status(403, forbidden, `admission webhook "w.example.com" denied the request: no`), reason: ReasonAdmissionRefused, text: "w.example.com"},
		{err: status(500, metav1.StatusReasonInternalError, `Internal error occurred: failed calling webhook "w.example.com": EOF`), reason: ReasonAdmissionRefused, text: "w.example.com"},
		{err: status(403, forbidden, `pods "x" is forbidden: violates PodSecurity "restricted:latest"`), reason: ReasonAdmissionRefused, text: "PodSecurity"},
		{err: status(403, forbidden, "exceeded quota: q"), reason: ReasonQuotaExceeded, text: "quota"},
		{err: status(403, forbidden, "no"), reason: ReasonMissingPermission, text: "no"},
		{err: fmt.Errorf("%w x: %w", ErrNamespace, status(403, forbidden, "no")), reason: ReasonMissingPermission, text: "may not create namespaces", waits: true},
		{err: errors.New("connection refused"), reason: ReasonLocalUnreachable, text: "connection refused"},
		{err: status(422, invalid, "no"), reason: ReasonInvalidObject, text: "no"},
		{err: status(500, metav1.StatusReasonInternalError, "no"), reason: ReasonWriteFailed, text: "no"},
	} {
		p := Reader{}.Problem(c.err, at("ConfigMap"), false)
		if p.Reason != c.reason || !strings.HasPrefix(p.Text, "ConfigMap default/s: ") || !strings.Contains(p.Text, c.text) || p.Namespace != c.waits || p.Final() != c.isFinal {
			t.Errorf("%v: %+v, final: %t", c.err, p, p.Final())
		}
		if wait := p.MaxBackoff(); wait < backoffCapOutage || wait > backoffCapObject {
			t.Errorf("%v: it waits %s at most", c.err, wait)
		}
	}
}

// What API servers say about a Secret may hold what is in it.
func TestRefusalsOfSecretsTellNothing(t *testing.T) {
	for _, message := range []string{
		`secrets "s" is forbidden: ValidatingAdmissionPolicy 'no-x' with binding 'no-x' denied request: hunter2`,
		`admission webhook "check.example.com" denied the request: hunter2`,
		`secrets "s" is forbidden: exceeded quota: hunter2`,
		`secrets is forbidden: User "agent" cannot create hunter2`,
		`hunter2`,
	} {
		for _, reason := range []metav1.StatusReason{metav1.StatusReasonForbidden, metav1.StatusReasonInvalid, metav1.StatusReasonInternalError} {
			p := Reader{}.Problem(status(403, reason, message), at("Secret"), true)
			if strings.Contains(p.Text, "hunter2") || len(p.Text) < len("Secret default/s: x") {
				t.Errorf("%s %q becomes %q", reason, message, p.Text)
			}
		}
	}
}

func TestClass(t *testing.T) {
	own := errors.New("of a source")
	r := Reader{Classify: func(err error) error {
		if errors.Is(err, own) {
			return ErrRestored
		}
		return nil
	}}
	for err, want := range map[error]Class{
		own: Restored, ErrUnreachable: Unreachable, ErrForbidden: Forbidden, ErrKindUnknown: KindUnknown,
		status(401, metav1.StatusReasonUnauthorized, ""):         Forbidden,
		status(503, metav1.StatusReasonServiceUnavailable, ""):   Unreachable,
		status(404, metav1.StatusReasonNotFound, ""):             KindUnknown,
		status(409, metav1.StatusReasonConflict, "of a version"): Other,
	} {
		if got := r.Class(fmt.Errorf("wrapped: %w", err)); got != want {
			t.Errorf("%v is of class %d, want %d", err, got, want)
		}
	}
}

func TestImmutable(t *testing.T) {
	fixed := metav1.StatusCause{Type: metav1.CauseTypeFieldValueInvalid, Message: "Invalid value: field is immutable", Field: "spec.selector"}
	other := metav1.StatusCause{Type: metav1.CauseTypeFieldValueInvalid, Message: "must be positive", Field: "spec.replicas"}
	for _, c := range []struct {
		err  error
		want Immutability
	}{
		{nil, Mutable},
		{errors.New("immutable"), Mutable},
		{status(422, metav1.StatusReasonInvalid, "", other), Mutable},
		{status(422, metav1.StatusReasonInvalid, "", fixed, other), Partly},
		{status(422, metav1.StatusReasonInvalid, "", fixed), Wholly},
	} {
		if got := Immutable(c.err); got != c.want {
			t.Errorf("%v: %d, want %d", c.err, got, c.want)
		}
	}
}

// Texts that are one line already, as nearly all are, stay what they are; of others the words are left.
func TestTextsOfOneLine(t *testing.T) {
	for _, text := range []string{"", " ", "a", "a b", "a  b", " a", "a ", "a\tb", "\n", "é ü", "a\u00a0b", "a\u2028b", "a\u202eb", "a\xff", "\ufffd", "\x1b[31m"} {
		want := strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, "?"), func(r rune) bool { return !unicode.IsPrint(r) || r == ' ' }), " ")
		if got := OneLine(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

func TestTextsAreBoundedAndOneLine(t *testing.T) {
	got := OneLine("a\nb\tc\x00d \xff" + strings.Repeat("é", maxText))
	if strings.ContainsAny(got, "\n\t\x00") || !utf8.ValidString(got) || len(got) > maxText+len("…")+1 || !strings.HasPrefix(got, "a b c d ?") {
		t.Errorf("%q", got)
	}
}
