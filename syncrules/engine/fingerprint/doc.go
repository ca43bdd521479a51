// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fingerprint hashes objects and what copies are made of, so that a change can be seen without keeping what there was.
package fingerprint
