// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"cmp"

	"k8s.io/client-go/util/retry"
)

// OnConflict calls change, and again after a conflict with another write. It returns the error of the last call:
// retry.RetryOnConflict would return nil when a context ends.
func OnConflict(change func() error) error {
	var last error
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		last = change()
		return last
	})
	return cmp.Or(err, last)
}
