// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package loop runs what the agent does again and again: for the keys of a Loop, and for the one thing of a Task.
//
// Both are level-triggered: an addition says "look again", never what happened, so that one which is lost in a crash or
// comes twice changes nothing. Both try again with back-off what failed, and log what goes on failing.
package loop
