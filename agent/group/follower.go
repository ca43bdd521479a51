// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package group

import (
	"crypto/ed25519"

	"github.com/roster-mesh/roster/replica"
	"github.com/roster-mesh/roster/replica/journal"
)

// follower returns a machine that holds the entries of the group and does nothing with them.
func (g *Group) follower() (journal.Machine, error) {
	return replica.New(replica.Options{Self: g.options.ClusterID, PrivateKey: g.options.Key, Keyring: noKeys{}})
}

// followAgain replaces the replica of a term that has ended by a follower.
func (g *Group) followAgain() error {
	machine, err := g.follower()
	if err != nil {
		return err
	}
	return g.journal.Adopt(machine)
}

// noKeys is the keyring of a replica that merges nothing.
type noKeys struct{}

func (noKeys) Key(string) (ed25519.PublicKey, bool)                           { return nil, false }
func (noKeys) Introduce(string, ed25519.PublicKey, string) error              { return replica.ErrUnknownOrigin }
func (noKeys) Remove(string, ed25519.PublicKey, ed25519.PublicKey, bool) bool { return false }
func (noKeys) Sponsor(string, ed25519.PublicKey, string) (string, bool)       { return "", false }
