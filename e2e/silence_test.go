// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/base64"
	"strings"
	"testing"
)

// No secret is ever logged, at the most talkative level either: not the content of copied Secrets, and not
// the credentials and keys that the agent itself reads and writes.
func TestNoSecretsInLogs(t *testing.T) {
	g := joined(t)
	g.cleanUp(t, "unspoken")
	const value = "never-to-be-logged-8b1d"
	if err := g.beta.KillAgent(); err != nil {
		t.Fatal(err)
	}
	before := len(g.beta.Log())
	if err := g.beta.StartAgent(t.Context(), "--log-level", "debug"); err != nil {
		t.Fatal(err)
	}
	g.share(t, "unspoken", value)
	deleteSecret(t, g.beta, "unspoken")
	eventually(t, "the copy is restored", within, hasCopy(g.beta, g.gamma, "unspoken", value))
	if err := g.beta.RestartAgent(t.Context()); err != nil {
		t.Fatal(err)
	}
	log := g.beta.Log()[before:]
	if !strings.Contains(log, "level=DEBUG") {
		t.Error("the agent says nothing at level debug, so this proves nothing")
	}
	// A body may be printed in hexadecimal, where nothing in it is found: none may be printed at all.
	for _, secret := range []string{value, base64.StdEncoding.EncodeToString([]byte(value)), "Request Body", "Response Body", "PRIVATE KEY", "eyJhbGciOi"} {
		if i := strings.Index(log, secret); i >= 0 {
			t.Errorf("the log holds %q: …%.200s…", secret, log[max(0, i-100):])
		}
	}
	if err := g.beta.AgentAlive(t.Context()); err != nil {
		t.Error(err)
	}
	g.eventuallyWhole(t, afterFault)
}
