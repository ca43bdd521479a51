// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package monitoring runs the chart's dashboard and alerts on a real Prometheus (the Debian package) that scrapes the
// agents of two clusters: every query of the dashboard shows something, no alert is up while all is well, and those
// are that what they are about is brought about. `make e2e` runs it.
package monitoring
