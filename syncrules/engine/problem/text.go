// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package problem

import (
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/syncrules"
	"github.com/roster-mesh/roster/syncrules/consent"
)

const (
	maxText = 512
	// MaxMessage is how many bytes the message of a condition may have.
	MaxMessage = 4096
)

// Describe is an error as one bounded line. What an API server says about a Secret may repeat its content, so
// only the reason and the names of fields are told.
func Describe(err error, secret bool) string {
	if !secret || errors.Is(err, consent.ErrNeeded) || errors.Is(err, syncrules.ErrSource) {
		return OneLine(err.Error())
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
	return OneLine(strings.Join(parts, " "))
}

// OneLine makes text of others fit for a condition.
func OneLine(s string) string { return Bounded(s, maxText) }

// Bounded is OneLine with another limit, in bytes.
func Bounded(s string, limit int) string {
	cut := len(s) > limit
	if cut {
		s = s[:limit]
	}
	if isLine(s) {
		s = strings.Clone(s) // it may be a part of an object
	} else {
		s = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(s, "?"), func(r rune) bool {
			return unicode.IsSpace(r) || !unicode.IsPrint(r)
		}), " ")
	}
	if cut {
		s += "…"
	}
	return s
}

// isLine says that a text is one line as it is, of words with a space between them: nearly all that are written here are.
func isLine(s string) bool {
	before := ' '
	for _, r := range s {
		if r == utf8.RuneError || !unicode.IsPrint(r) || r == ' ' && before == ' ' {
			return false
		}
		before = r
	}
	return before != ' '
}

// Yes is a condition that is true.
func Yes(reason, message string) metav1.Condition {
	return metav1.Condition{Status: metav1.ConditionTrue, Reason: reason, Message: message}
}

// No is a condition that is false.
func No(reason, message string) metav1.Condition {
	return metav1.Condition{Status: metav1.ConditionFalse, Reason: reason, Message: message}
}
