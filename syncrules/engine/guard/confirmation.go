// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"strconv"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/syncrules"
)

// confirmation is what a person has said about deletions that lack proof: up to so many of them, once.
type confirmation struct {
	count int  // of the annotation; 0 for none
	used  int  // the count that was used up; the same one allows nothing more until it was taken away
	begun bool // deletions go on that it allowed, of which
	spent int  // are done
}

func confirmationOf(r *v1alpha1.ResourceSyncRule) (c confirmation) {
	if n, err := strconv.ParseInt(r.Annotations[syncrules.AnnotationConfirmDeletions], 10, 32); err == nil && n > 0 {
		c.count, c.used = int(n), int(r.Status.ConfirmedDeletions)
	}
	return c
}

// after is the confirmation of a rule that had another one: what is known here is newer than what its status tells.
func (c confirmation) after(old confirmation) confirmation {
	switch c.count {
	case 0:
		return confirmation{}
	case old.count:
		return old
	}
	c.used = old.used
	return c
}

// allows says whether so many may go, and notes that they do.
func (c *confirmation) allows(absent int) bool {
	if c.count == c.used || c.spent+absent > c.count {
		return false
	}
	c.begun = true
	return true
}

// told is the count that the status tells as used up, from its first deletion on: an agent that is started again in the
// middle asks again.
func (c confirmation) told() int {
	if c.begun {
		return c.count
	}
	return c.used
}

// next is the count to confirm so many with.
func (c confirmation) next(absent int) int {
	if absent == c.used {
		return absent + 1
	}
	return absent
}
