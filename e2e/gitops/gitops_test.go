// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package gitops

import "testing"

// TestTools: Argo CD and Flux read the Secrets that agentctl export prints, as people are told to apply them, and deploy from one
// cluster to another with the credentials in them, once a person there has let them.
func TestTools(t *testing.T) {
	r := start(t)
	r.types(r.root, r.block("Let a tool deploy", "sh", "create rolebinding"))
	t.Run("ArgoCD", func(t *testing.T) { r.in(t).argoCD() })
	t.Run("Flux", func(t *testing.T) { r.in(t).flux() })
	r.must("", r.docs.Untyped("e2e/gitops.TestTools"))
}
