// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/roster-mesh/roster/replica/journal"
)

// TestDataDirError: only errors about the directory get advice.
func TestDataDirError(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{errors.New("read-only file system"), "--data-dir d: read-only file system; name a directory"},
		{journal.ErrInUse, "stop that agent"},
		{journal.ErrOtherCluster, "a directory of its own"},
		{fmt.Errorf("open: %w", context.Canceled), ""},
		{journal.ErrLost, ""},
		{journal.ErrRecord, ""},
	} {
		got := DataDirError("d", c.err)
		if !errors.Is(got, c.err) || !strings.Contains(got.Error(), c.want) || (got.Error() == c.err.Error()) != (c.want == "") {
			t.Errorf("%v, want %q", got, c.want)
		}
	}
}
