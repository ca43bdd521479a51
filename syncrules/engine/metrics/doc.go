// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package metrics is the metrics of the engine.
//
// Rules have labels: the first MaxLabels, and one for all others, so that who may create rules cannot fill the memory of
// who collects metrics.
package metrics
