// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pods tests Roster as its users run it: the chart, the image and the README's own commands, in three real
// clusters with pods. Package node starts those; `make e2e-pods` runs the tests. Where the machine cannot run nodes
// they skip and say why.
//
// The nodes' CNI plugins do not enforce NetworkPolicies: what the chart's say is looked at as text alone (e2e/chart).
//
// The tests share three clusters in which README.md's text was carried out, in the order of the names of the files;
// each can also be run alone.
package pods
