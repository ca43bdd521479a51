// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pace says when a copy may be written, and when a write that failed is tried again.
//
//   - Allowance, Wrote: so many writes at once, then so many a second (Rate, Burst). What comes faster is put off and
//     summed up. The same content written again and again, since something changes it back, is written ever more seldom.
//   - Failed: each copy has its own exponential back-off. Those of many that go on failing are spread, so that all together
//     are tried again at a rate for all.
//   - Recreated: for which content a copy was made anew, so that this is not done for ever.
//
// A Pacer has no lock and no clock: the caller has both. Notes about copies that need none are dropped as they become many, and once a minute.
package pace
