// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"fmt"
	"slices"
)

// stops are the functions that stop what was started. They run in reverse order when the agent stops, or when a start
// fails.
type stops []stop

type stop struct {
	name string
	do   func() error
}

func (s *stops) push(name string, do func() error) { *s = append(*s, stop{name, do}) }

// unwind calls every function once, last in first out, and joins their errors.
func (s *stops) unwind() error {
	var errs []error
	for _, last := range slices.Backward(*s) {
		if err := last.do(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", last.name, err))
		}
	}
	*s = nil
	return errors.Join(errs...)
}
