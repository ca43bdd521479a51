// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package install checks that the chart was installed where the agent starts, and says what a person has to do when the
// agent cannot start with what it was given: rights, CRDs, a port, a directory. It brings the cluster's CRDs up to the
// agent's version, too.
package install
