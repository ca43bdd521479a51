// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"strings"
	"unicode"
)

// printable is a terminal that text of other clusters cannot steer: what is neither printable nor a line's end
// or a tab is a question mark.
type printable struct{ to io.Writer }

func (p printable) Write(text []byte) (int, error) {
	clean := strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, string(text))
	if _, err := io.WriteString(p.to, clean); err != nil {
		return 0, err
	}
	return len(text), nil
}
