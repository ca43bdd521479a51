// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package visitors lets others than the one who started agentctl ui see the page, as when it runs in a pod.
//
// A visitor shows a token of the cluster: in the header Authorization, as an authenticating proxy sets it, or once in a form,
// for a cookie. The API server says whose token it is (TokenReview), and whether that user may read what the page shows
// (SubjectAccessReview). It is asked again while the visitor is there, so that a token that ends, or a right that is taken
// away, ends the session and all that it has open. An answer that is too old is none: who cannot be asked about sees nothing.
//
//	Door         checks every request, and keeps the sessions
//	Reviewer     asks the API server
//	Certificate  is what the page is served with: two files, which may change
//
// Tokens are in memory alone. They are in no error and in no log.
package visitors
