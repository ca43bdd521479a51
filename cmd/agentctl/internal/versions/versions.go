// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

// Package versions compares versions of Roster by what it promises: agents, and agentctl, work together when they are
// at most one minor version apart (docs/release.md).
package versions

import "github.com/Masterminds/semver/v3"

// How far two versions are apart. One minor version is supported, and with it any patch of both.
const (
	SkewNone      = "none"      // the same minor version
	SkewSupported = "supported" // one minor version apart
	SkewExceeded  = "exceeded"  // more than one, or another major version
	SkewUnknown   = "unknown"   // one of them does not say a version, such as an agent that was built by hand
)

// Skew tells how far two versions are apart; nil is a version that is not known.
func Skew(a, b *semver.Version) string {
	switch {
	case a == nil || b == nil:
		return SkewUnknown
	case a.Major() != b.Major() || max(a.Minor(), b.Minor())-min(a.Minor(), b.Minor()) > 1:
		return SkewExceeded
	case a.Minor() != b.Minor():
		return SkewSupported
	default:
		return SkewNone
	}
}

// Parse is nil for what is not a version.
func Parse(text string) *semver.Version {
	v, err := semver.StrictNewVersion(text)
	if err != nil {
		return nil
	}
	return v
}
