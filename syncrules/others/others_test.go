// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package others

import "testing"

func TestKeys(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		key, value             string
		owns, tracks, controls bool
	}{
		{"argocd.argoproj.io/tracking-id", "x", true, true, false},
		{"kustomize.toolkit.fluxcd.io/name", "x", true, true, false},
		{"app.kubernetes.io/managed-by", "Helm", true, true, false},
		{"app.kubernetes.io/managed-by", "somebody", false, false, false},
		{"app.kubernetes.io/instance", "x", false, true, false},
		{"kubectl.kubernetes.io/last-applied-configuration", "{}", false, true, false},
		{"deployment.kubernetes.io/revision", "7", false, false, true},
		{templateGeneration, "7", false, false, true},
		{"team", "blue", false, false, false},
	} {
		if Owns(c.key, c.value) != c.owns || Tracks(c.key, c.value) != c.tracks || Controls(c.key) != c.controls {
			t.Errorf("%s=%s: owns %t, tracks %t, controls %t", c.key, c.value, Owns(c.key, c.value), Tracks(c.key, c.value), Controls(c.key))
		}
	}
}
