// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"fmt"
	"slices"
)

// stops is what is to be ended when the agent ends, or a start of it fails: last in, first out.
type stops []stop

type stop struct {
	name string
	do   func() error
}

func (s *stops) push(name string, do func() error) { *s = append(*s, stop{name, do}) }

// unwind ends everything, once.
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
