// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package loop runs work that repeats: a Loop has a queue of keys and reconciles each of them, a Task is a single thing
// to do.
//
// Both are level-triggered: to add a key or to trigger a task means "reconcile", never what happened. So an addition
// that is lost in a crash, or that comes twice, changes nothing. Both retry with back-off after an error, and log an
// error that does not go away. Keys may be added and tasks triggered before Run, and from any goroutine.
package loop
