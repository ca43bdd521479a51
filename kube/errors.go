// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var (
	// ErrUnreachable is returned when no answer came from the API server: the connection was
	// refused, cut, not trusted, or timed out.
	ErrUnreachable = errors.New("API server not reachable")
	// ErrUnauthorized is returned when the API server does not accept the credential (401).
	ErrUnauthorized = errors.New("credential not accepted")
	// ErrForbidden is returned when the credential is accepted but lacks a permission (403).
	ErrForbidden = errors.New("not allowed")
	// ErrKindUnknown is returned when the API server does not serve the kind; usually its CRD is
	// not installed.
	ErrKindUnknown = errors.New("kind not served")
	// ErrRestored is reported to Sink.Health when an API server was restored from a backup (package
	// history), until the owner of its cluster confirms that.
	ErrRestored = errors.New("API server went back in time, as after a restore from a backup; its cluster has not confirmed that yet")
	// ErrRelisting is reported to Sink.Health when a watch has ended and a new list is read.
	ErrRelisting = errors.New("watch ended, listing again")
)

// maxMessage bounds a text of an API server in an error, in bytes.
const maxMessage = 512

// fault is an error with its class, a bounded one-line message, and its cause.
type fault struct {
	class error
	text  string
	cause error
}

func (f *fault) Error() string {
	if f.text == "" {
		return f.class.Error()
	}
	return f.class.Error() + ": " + f.text
}

func (f *fault) Unwrap() []error {
	if f.cause == nil {
		return []error{f.class}
	}
	return []error{f.class, f.cause}
}

// classify gives an error of a request its class, so that a caller can find the cause with errors.Is
// and show it in one line. Errors that have no class get a bounded message; API status errors stay
// visible to apierrors in every case.
func classify(err error) error {
	var known *fault
	if err == nil || errors.As(err, &known) || errors.Is(err, context.Canceled) {
		return err
	}
	if connection, ok := errors.AsType[*connectionError](err); ok {
		return &fault{ErrUnreachable, serverOf(err) + connection.Error(), err}
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return &fault{ErrUnreachable, serverOf(err) + "no answer in time", err}
	case apierrors.IsUnauthorized(err):
		return &fault{ErrUnauthorized, "", err}
	case apierrors.IsForbidden(err):
		return &fault{ErrForbidden, messageOf(err), err}
	case isKindNotServed(err):
		return &fault{ErrKindUnknown, messageOf(err), err}
	}
	return &bounded{err}
}

// bounded is an error of no class whose message may come from a peer.
type bounded struct{ cause error }

func (b *bounded) Error() string { return messageOf(b.cause) }
func (b *bounded) Unwrap() error { return b.cause }

// messageOf is the message of the API server, without what client-go adds to it.
func messageOf(err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Message != "" {
		return oneLine(status.Status().Message)
	}
	return oneLine(err.Error())
}

// serverOf is "https://host:port: " where err has the URL of the request; its path and query mean
// nothing to a user.
func serverOf(err error) string {
	var req *url.Error
	if !errors.As(err, &req) {
		return ""
	}
	u, parseErr := url.Parse(req.URL)
	if parseErr != nil || u.Host == "" {
		return ""
	}
	return u.Scheme + "://" + u.Host + ": "
}

// isKindNotServed says whether a 404 means that the path, and not the object, does not exist. An API
// server answers such a request in plain text, which client-go marks as an unexpected response.
func isKindNotServed(err error) bool {
	return apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// oneLine makes a text fit for a condition, an event or a terminal.
func oneLine(s string) string {
	cut := len(s) > maxMessage
	if cut {
		s = s[:maxMessage]
	}
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r) || r == utf8.RuneError
	}), " ")
	if cut {
		s += "…"
	}
	return s
}
