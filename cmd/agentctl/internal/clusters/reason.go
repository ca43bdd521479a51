// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"errors"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
)

// maxReason bounds what is shown of an error, in bytes.
const maxReason = 300

// Reason is an error as one bounded line, without the address and the other words that the client library
// wraps around it.
func Reason(err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Message != "" {
		err = errors.New(status.Status().Message)
	}
	return Bound(err.Error())
}

// Bound is a text of another cluster as one line that is no longer than fits a screen.
func Bound(text string) string {
	if text = cli.OneLine(text); len(text) > maxReason {
		text = strings.ToValidUTF8(text[:maxReason], "") + "…"
	}
	return text
}
