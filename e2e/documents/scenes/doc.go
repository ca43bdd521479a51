// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scenes types the commands of the documents, from their text, in a group of five clusters that have the names that the
// documents use. There are no pods: agents run beside their clusters.
package scenes
