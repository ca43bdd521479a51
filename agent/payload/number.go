// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package payload

import (
	"cmp"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/roster-mesh/roster/kube/api/v1alpha1"
	"github.com/roster-mesh/roster/replica"
)

// AnnotationEntry records on a copy the number of the entry that it was written from. A restarted agent does not know
// what the replica held, and a member that was cut off for long may then offer an older set that is complete in itself.
// That set neither overwrites the copy nor proves that the object was deleted.
const AnnotationEntry = v1alpha1.LocalPrefix + "entry"

// Number is the position of an entry in what its origin published.
type Number struct{ Epoch, Sequence uint64 }

func (n Number) String() string { return fmt.Sprintf("%d.%d", n.Epoch, n.Sequence) }

// Before reports whether n was published before m.
func (n Number) Before(m Number) bool {
	return cmp.Or(cmp.Compare(n.Epoch, m.Epoch), cmp.Compare(n.Sequence, m.Sequence)) < 0
}

// NumberOf is the number of an entry.
func NumberOf(e replica.Entry) Number { return Number{e.Epoch, e.Sequence} }

// RecordedOn is the number that is recorded on a copy; zero if there is none.
func RecordedOn(o metav1.Object) (n Number) {
	if _, err := fmt.Sscanf(o.GetAnnotations()[AnnotationEntry], "%d.%d", &n.Epoch, &n.Sequence); err != nil {
		return Number{}
	}
	return n
}
