// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lobby holds the connections of strangers: of whom it is not known yet who they are, or who will never be pinned.
//
// Their number is bounded. Where all places are taken, one more ends the oldest connection of the network that holds most of
// them, so that who opens many from one network ends its own. A network is what one customer of a provider has: the first
// 24 bits of an IPv4 address, or 56 of an IPv6 address. Connections that come by way of a proxy or another agent are all of
// its network.
package lobby
