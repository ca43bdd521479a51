// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package stops

import (
	"errors"
	"fmt"
	"slices"
)

// Stops run in reverse order when the agent stops, or when a start fails.
type Stops []stop

type stop struct {
	name string
	do   func() error
}

// Push adds a function.
func (s *Stops) Push(name string, do func() error) { *s = append(*s, stop{name, do}) }

// Unwind calls every function once, last in first out, and joins their errors.
func (s *Stops) Unwind() error {
	var errs []error
	for _, last := range slices.Backward(*s) {
		if err := last.do(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", last.name, err))
		}
	}
	*s = nil
	return errors.Join(errs...)
}
