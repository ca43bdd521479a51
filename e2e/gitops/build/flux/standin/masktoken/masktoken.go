// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package masktoken stands in for github.com/fluxcd/pkg/masktoken, by which kustomize-controller keeps substituted values out of its
// error messages.
package masktoken

import "strings"

// MaskTokenFromString hides a token in a text.
func MaskTokenFromString(text, token string) (string, error) {
	return strings.ReplaceAll(text, token, "*****"), nil
}
