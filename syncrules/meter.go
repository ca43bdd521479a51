// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package syncrules

import "errors"

// errBudget is what is wrong with overrides that take more time or memory than any copy may.
var errBudget = errors.New("it takes too much time or memory")

// budget is what all overrides of one copy may spend together. The unit is about a byte made or a nanosecond.
const budget = 16 << 20

// meter bounds what the rules of others can make an agent do for one copy, the same on each machine: it
// counts work, not time.
type meter struct{ left int64 }

func (m *meter) spend(n int64) error {
	if n < 0 || n > m.left {
		m.left = 0
		return errBudget
	}
	m.left -= n
	return nil
}

// smaller says whether a value is written in fewer than so many bytes.
func smaller(v any, limit int64) bool {
	m := meter{left: limit}
	return m.spendOn(v) == nil
}

// spendOn spends what a value measures, about the bytes of its JSON.
func (m *meter) spendOn(v any) error {
	switch v := v.(type) {
	case string:
		return m.spend(int64(len(v)) + 2)
	case map[string]any:
		for k, c := range v {
			if err := m.spend(int64(len(k)) + 4); err != nil {
				return err
			}
			if err := m.spendOn(c); err != nil {
				return err
			}
		}
	case []any:
		for _, c := range v {
			if err := m.spendOn(c); err != nil {
				return err
			}
		}
	}
	return m.spend(4)
}
