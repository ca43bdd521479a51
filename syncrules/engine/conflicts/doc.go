// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package conflicts knows what is in the way of copies: objects here, without the marks of a copy, that have the name of one.
// Each is watched, by itself or together with others of its kind, so that a copy can follow as soon as its place is free,
// and so that it need not be read again while it is as it was.
//
// It has the lock of the engine: what ends in Locked is called with it held.
package conflicts
