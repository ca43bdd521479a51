// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rights finds out which rights the agent lacks, in the local API server and in those of other clusters, and says
// to people how to grant them.
//
// It decides nothing: that a request was refused is the truth, and a review only says which right to grant. Of the local
// API server a review is made when a rule begins to write a kind, since there may be no object yet whose copy would be
// refused; a peer's answer to the watch says the same sooner. Beyond that, one is made when something was refused
// (Suspect), and again with back-off while rights are missing.
//
// A Reviewer has a lock of its own, which is a leaf: it is never held when something outside is called. So all methods but
// Run may be called with other locks held.
package rights
