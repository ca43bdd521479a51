// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"
)

// maxOffset is how far clocks may differ: tokens are refused that are not valid yet, or not any more.
const maxOffset = 30 * time.Second

// checkClock compares the clocks of the API servers with the one here, and with each other.
func checkClock(_ context.Context, x *examination) []diagnosis {
	var out []diagnosis
	var asked []*patient
	wrong := 0
	for _, p := range x.patients {
		switch {
		case p.apiErr != nil:
			continue
		case p.offset == 0:
			out = append(out, diagnosis{Severity: isUnknown, Cluster: p.name(), Message: "the API server does not say what time it is there"})
			continue
		case p.offset.Abs() > maxOffset+p.asked/2:
			wrong++
		}
		asked = append(asked, p)
	}
	if wrong == 0 {
		return append(out, apart(asked)...)
	}
	if wrong > 1 && wrong == len(asked) && len(apart(asked)) == 0 {
		return append(out, diagnosis{
			Severity: isWarning, Cluster: "this machine", Message: fmt.Sprintf("the clock here is %s, by those of all the API servers", behind(-asked[0].offset)),
			Fix: "sudo timedatectl set-ntp true  # here",
		})
	}
	for _, p := range asked {
		if p.offset.Abs() > maxOffset+p.asked/2 {
			out = append(out, clockWrong(p, fmt.Sprintf("the clock of its API server is %s, by the one here", behind(p.offset))))
		}
	}
	return out
}

// apart says which clocks differ from the first one, although none does so much from the one here.
func apart(asked []*patient) []diagnosis {
	var out []diagnosis
	for i, p := range asked {
		if first := asked[0]; i > 0 && (p.offset-first.offset).Abs() > maxOffset+(p.asked+first.asked)/2 {
			out = append(out, clockWrong(p, fmt.Sprintf("the clock of its API server is %s, by that of %s", behind(p.offset-first.offset), first.name())))
		}
	}
	return out
}

func clockWrong(p *patient, message string) diagnosis {
	return diagnosis{
		Severity: isWarning, Cluster: p.name(), Message: message,
		Fix: "sudo timedatectl set-ntp true  # on the machines of the control plane of " + shellWord(p.name()),
	}
}

func behind(offset time.Duration) string {
	if offset < 0 {
		return offset.Abs().Round(time.Second).String() + " behind"
	}
	return offset.Round(time.Second).String() + " ahead"
}
