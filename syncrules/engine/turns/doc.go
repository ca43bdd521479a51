// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package turns has things wait in lines, and says which is next: at each level of a tree each line comes once, with all below it. So thousands of lines that
// somebody has below one of his have together one turn beside the next one, and what waits behind whom is a matter of two who share a line.
//
// It has no lock.
package turns
