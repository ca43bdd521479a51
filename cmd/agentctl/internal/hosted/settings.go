// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package hosted

import (
	"strconv"
	"strings"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
	"github.com/roster-mesh/roster/cmd/agentctl/internal/hosted/objects"
)

// over returns the settings that are in force where a registry was begun with others: those. What the user gave this time
// must be the same.
func over(s, begun objects.Settings, registry string, given func(flag string) bool) (objects.Settings, error) {
	for _, field := range []struct{ flag, have, want string }{
		{"image", begun.Image, s.Image},
		{"service-type", begun.ServiceType, s.ServiceType},
		{"advertise", begun.Advertise, s.Advertise},
		{"storage", begun.Storage, s.Storage},
		{"storage-class", begun.StorageClass, s.StorageClass},
		{"agent", strconv.FormatBool(begun.Agent != ""), strconv.FormatBool(s.Agent != "")},
		{"agent-image", begun.Agent, s.Agent},
		{"apiserver-arg", strings.Join(begun.Args, " "), strings.Join(s.Args, " ")},
	} {
		if given(field.flag) && field.have != field.want {
			return objects.Settings{}, cli.Usagef("--%s: registry %s is there, and was made with %q: leave the flag out, or run `agentctl delete %s` first, which keeps the data", field.flag, registry, field.have, registry)
		}
	}
	return begun, nil
}
