// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"fmt"
	"time"

	"github.com/roster-mesh/roster/cmd/agentctl/internal/cli"
)

// maxOffset is how far clocks may differ: tokens are refused that are not valid yet, or not any more.
const maxOffset = 30 * time.Second

// checkClock compares the clocks of the API servers with the one here, and with each other.
func checkClock(_ context.Context, x *inspection) []Finding {
	var out []Finding
	var answered []*target
	wrong := 0
	for _, t := range x.targets {
		switch {
		case t.apiErr != nil:
			continue
		case t.offset == 0:
			out = append(out, Finding{Severity: Unknown, Cluster: t.name(), Message: "the API server does not say what time it is there"})
			continue
		case t.offset.Abs() > maxOffset+t.roundTrip/2:
			wrong++
		}
		answered = append(answered, t)
	}
	if wrong == 0 {
		return append(out, clockDifferences(answered)...)
	}
	if wrong > 1 && wrong == len(answered) && len(clockDifferences(answered)) == 0 {
		return append(out, Finding{
			Severity: Warning, Cluster: "this machine", Message: fmt.Sprintf("the clock of this machine is %s, compared with those of all API servers", behind(-answered[0].offset)),
			Fix: "sudo timedatectl set-ntp true  # here",
		})
	}
	for _, t := range answered {
		if t.offset.Abs() > maxOffset+t.roundTrip/2 {
			out = append(out, clockWrong(t, fmt.Sprintf("the clock of its API server is %s, compared with the clock here", behind(t.offset))))
		}
	}
	return out
}

// clockDifferences says which clocks differ from the first one, although none does so much from the one here.
func clockDifferences(answered []*target) []Finding {
	var out []Finding
	for i, t := range answered {
		if first := answered[0]; i > 0 && (t.offset-first.offset).Abs() > maxOffset+(t.roundTrip+first.roundTrip)/2 {
			out = append(out, clockWrong(t, fmt.Sprintf("the clock of its API server is %s, compared with that of %s", behind(t.offset-first.offset), first.name())))
		}
	}
	return out
}

func clockWrong(t *target, message string) Finding {
	return Finding{
		Severity: Warning, Cluster: t.name(), Message: message,
		Fix: "sudo timedatectl set-ntp true  # on the machines of the control plane of " + cli.ShellWord(t.name()),
	}
}

func behind(offset time.Duration) string {
	if offset < 0 {
		return offset.Abs().Round(time.Second).String() + " behind"
	}
	return offset.Round(time.Second).String() + " ahead"
}
