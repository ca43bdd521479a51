// Copyright The Roster Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"slices"
	"strings"

	urfave "github.com/urfave/cli/v2"
)

// CompletionFlag ends a command line that a shell asks about.
const CompletionFlag = "--generate-bash-completion"

// FlagsFirst puts the flags of a command before its arguments, so that they may stand anywhere: the flag
// library reads none after the first argument. What follows "--" is left alone.
func FlagsFirst(app *urfave.App, args []string) []string {
	if len(args) == 0 {
		return args
	}
	out, arguments := []string{args[0]}, []string{}
	flags, commands := app.Flags, app.Commands
	for i := 1; i < len(args); i++ {
		switch a := args[i]; {
		case a == "--":
			return slices.Concat(out, []string{"--"}, arguments, args[i+1:])
		case strings.HasPrefix(a, "-") && a != "-" && a != CompletionFlag:
			out = append(out, a)
			if takesValue(flags, a) && i+1 < len(args) && args[i+1] != CompletionFlag {
				i++
				out = append(out, args[i])
			}
		default:
			at := slices.IndexFunc(commands, func(c *urfave.Command) bool { return c.HasName(a) })
			if at < 0 {
				arguments, commands = append(arguments, a), nil
				continue
			}
			out = append(out, a)
			flags, commands = commands[at].Flags, commands[at].Subcommands
		}
	}
	return append(out, arguments...)
}

// takesValue says that the word after a flag belongs to it.
func takesValue(flags []urfave.Flag, word string) bool {
	name := strings.TrimLeft(word, "-")
	return slices.ContainsFunc(flags, func(f urfave.Flag) bool {
		d, ok := f.(urfave.DocGenerationFlag)
		return ok && d.TakesValue() && slices.Contains(f.Names(), name)
	})
}
