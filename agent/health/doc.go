// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package health is how the agent reports problems: /readyz answers whether the agent is ready and why not (Health),
// the status of this cluster's Cluster object shows what is wrong with it (Problems), and a warning about an object is
// logged once (Once). Server serves the HTTP port.
//
// Parts report by a name of their own, so that one part never clears what another one reported. All types are safe for
// concurrent use.
package health
