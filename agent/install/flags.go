// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"
	"fmt"

	"github.com/roster-mesh/roster/replica/journal"
)

// MeshListenError says what to do when the mesh port cannot be opened.
func MeshListenError(address string, err error) error {
	return fmt.Errorf("--mesh-listen: cannot open the mesh port %s: %w; choose another port or stop what uses it", address, err)
}

// DataDirError says what to do when the data directory cannot be used. Errors that are not about the directory are
// returned unchanged.
func DataDirError(dir string, err error) error {
	advice := "name a directory that the agent can write to, or give --data-dir= to keep nothing on disk"
	switch {
	case errors.Is(err, journal.ErrInUse):
		advice = "stop that agent, or name another directory"
	case errors.Is(err, journal.ErrOtherCluster):
		advice = "give each cluster a directory of its own, or empty this one"
	case errors.Is(err, context.Canceled), errors.Is(err, journal.ErrLost), errors.Is(err, journal.ErrRecord):
		return err
	}
	return fmt.Errorf("--data-dir %s: %w; %s", dir, err, advice)
}
