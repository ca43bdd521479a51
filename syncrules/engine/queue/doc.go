// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package queue is the copies that wait for a decision, and those that are being decided on. It knows of which kinds there are any: while there are, it is
// not said of a rule that all is as it should be.
package queue
