// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"cmp"

	"k8s.io/client-go/util/retry"
)

// OnConflict does change again when somebody else changed the same object meanwhile. Its error is that of the last
// attempt: retry.RetryOnConflict takes the end of a context for the end of its own tries, and returns nil for it.
func OnConflict(change func() error) error {
	var last error
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		last = change()
		return last
	})
	return cmp.Or(err, last)
}
