// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package browser looks at the page of agentctl ui with Chromium.
package browser
