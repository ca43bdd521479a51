// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package fanout

import "fmt"

// What the copies that one rule makes, in one cluster, of the objects of another one are at most: so many, and so many bytes
// together. The latter is as much as agents write at once because of one cluster (engine/quota).
const (
	MaxCopies = 10_000
	MaxBytes  = 128 << 20
)

// Load is what a rule copies into each of its namespaces.
type Load struct {
	Objects int
	Bytes   int64
}

// Plus is so much more.
func (l Load) Plus(o Load) Load { return Load{l.Objects + o.Objects, l.Bytes + o.Bytes} }

// TooMany says to people that a rule would make too much of it in so many namespaces, and what becomes of the copies; "" if it
// would not.
func (l Load) TooMany(rule string, namespaces int) string {
	excess := l.Excess(namespaces)
	if excess == "" {
		return ""
	}
	return "rule " + rule + " would make " + excess + ": its copies stay as they are; narrow what it matches, or its targetNamespaces"
}

// Excess says to people what is too much of it in so many namespaces; "" if nothing is.
func (l Load) Excess(namespaces int) string {
	switch bytes := l.Bytes * int64(namespaces); {
	case l.Objects*namespaces > MaxCopies:
		return fmt.Sprintf("%d copies, of %d objects in %d namespaces each, and %d is most", l.Objects*namespaces, l.Objects, namespaces, MaxCopies)
	case bytes > MaxBytes:
		return fmt.Sprintf("copies of %d MiB, of %d objects with %d KiB in %d namespaces each, and %d MiB is most",
			bytes>>20, l.Objects, l.Bytes>>10, namespaces, MaxBytes>>20)
	}
	return ""
}
